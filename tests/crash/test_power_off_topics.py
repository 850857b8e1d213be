"""The power goes at each call to the disk while topics are made, written to and deleted.

Afterwards a topic whose creation was answered is there, folders or not, one whose deletion was answered is not, and one
that is there has the records that were acknowledged and takes more; there is no folder of anything else.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from broker_lite.broker.data_folder import DataFolder
from broker_lite.broker.journal import Change, Journal
from broker_lite.broker.partitions import Partitions
from broker_lite.broker.topics import Topics
from broker_lite.clock import ManualClock
from broker_lite.config.sources import Settings
from broker_lite.config.start import Durability
from broker_lite.log.disk import Disk, RealDisk
from broker_lite.records.build import NewRecord, build_batch
from tests.crash.faulty_disk import FaultyDisk, PowerOff
from tests.crash.sampling import points

NOW = 1_700_000_000_000


@dataclass
class Promised:
    there: dict[str, int] = field(default_factory=dict)
    """Topic -> records acknowledged in partition 0."""
    gone: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    """Asked for and not answered."""


class House:
    """The catalogue on a disk, as the broker puts it together."""

    def __init__(self, root: Path, disk: Disk) -> None:
        self.folder = DataFolder.open(root, disk)
        journal = Journal.open(root, disk, now_ms=NOW, sync=True)
        settings = Settings({})
        partitions = Partitions(self.folder, settings, Durability.FSYNC, ManualClock(NOW))

        def write(changes: list[Change]) -> None:
            journal.write(changes, NOW)

        self.topics = Topics(partitions, write, settings)
        for change in journal.replay():
            self.topics.apply(change)
        self.folder.begin()
        journal.begin()
        self.topics.open_all()
        self.folder.checkpoint(self.topics.open_partitions(), sync=True)

    def live(self, promised: Promised) -> None:
        for name in ("a", "b"):
            promised.unsure = {name}
            self.topics.create(name, 2, {"segment.bytes": "300"})
            promised.there[name] = 0
        promised.unsure = set()
        self.fill("a", promised)
        self.delete("a", promised)
        self.fill("b", promised)
        promised.unsure = {"a"}
        promised.gone.discard("a")
        self.topics.create("a", 3, {})
        promised.unsure, promised.there["a"] = set(), 0
        self.fill("a", promised)
        self.delete("b", promised)

    def fill(self, name: str, promised: Promised) -> None:
        partition = self.topics.partition(name, 0)
        for number in range(8):
            batch = build_batch(
                [NewRecord(b"k", b"%d" % number)], timestamp=NOW, producer_id=1, producer_epoch=0, base_sequence=number
            )
            partition.append(memoryview(batch), api_version=9, now_ms=NOW)
            partition.log.flush()
            promised.there[name] += 1

    def delete(self, name: str, promised: Promised) -> None:
        del promised.there[name]
        promised.unsure = {name}
        topic = self.topics.get(name)
        assert topic is not None
        self.topics.delete(topic)
        promised.unsure = set()
        promised.gone.add(name)


@pytest.mark.parametrize("survives", [(1, 1), (0, 1), (1, 3)], ids=["kill", "all unsynced lost", "a third left"])
def test_what_was_answered_is_true_and_nothing_is_left_behind(tmp_path: Path, survives: tuple[int, int]) -> None:
    disk = FaultyDisk()
    House(tmp_path / "all", disk).live(Promised())
    disk.abandon()
    for n in points(disk.calls, 60):
        root, off, promised = tmp_path / str(n), FaultyDisk(power_off_at=n), Promised()
        with pytest.raises(PowerOff):
            House(root, off).live(promised)
        off.lose(*survives)
        off.abandon()
        check(root, promised, n)
        shutil.rmtree(root)


def check(root: Path, promised: Promised, n: int) -> None:
    house = House(root, RealDisk())
    names = {topic.name for topic in house.topics}
    assert set(promised.there) <= names <= set(promised.there) | promised.unsure, f"call {n}"
    folders = {path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("@")}
    partitions = {str(tp) for topic in house.topics for tp in topic.partitions()}
    assert folders <= partitions, f"call {n}"
    for name, records in promised.there.items():
        partition = house.topics.partition(name, 0)
        assert records <= partition.log.end <= records + 1, f"call {n}"
        assert partition.log.recovered.damage is None, f"call {n}"
        batch = build_batch(
            [NewRecord(b"k", b"next")],
            timestamp=NOW,
            producer_id=1,
            producer_epoch=0,
            base_sequence=int(partition.log.end),
        )
        partition.append(memoryview(batch), api_version=9, now_ms=NOW)
        assert f"{name}-0" in {path.name for path in root.iterdir()}, f"call {n}"
    for partition in house.topics.open_partitions():
        partition.close(clean=False)
    house.folder.close(clean=False)
