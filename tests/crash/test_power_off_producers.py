"""The power goes at each call to the disk while an idempotent producer writes and segments roll, each with a snapshot.

Afterwards the producer goes on as if nothing had happened: it sends again what it got no answer for, and at the end
every record is there once and in order, and a transaction that was aborted before is still aborted.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker_lite.ids import Offset
from broker_lite.log.log import LogSettings
from broker_lite.partition.partition import PartitionSettings
from broker_lite.records.record import records_of
from tests.crash.faulty_disk import FaultyDisk, PowerOff
from tests.crash.sampling import points
from tests.partition.house import House, batch

COUNT = 14
ABORT_AFTER = 5


def settings(*, fsync: bool) -> PartitionSettings:
    return PartitionSettings(log=LogSettings(segment_bytes=420), hold_high_until_synced=fsync)


def live(house: House, begin: int, answered: list[int]) -> None:
    """Batch after batch, and in the middle a transaction of another producer that comes to nothing."""
    for number in range(begin, COUNT):
        house.append(batch(b"%d" % number, producer=7, sequence=number))
        if house.settings.hold_high_until_synced:
            house.partition.log.flush()
        answered.append(number)
        if number == ABORT_AFTER:
            house.append(batch(b"gone", producer=8, sequence=0, transactional=True))
            house.end(8, commit=False)
    house.partition.close(clean=True)


def count_calls(root: Path, *, fsync: bool) -> int:
    disk = FaultyDisk()
    live(House(root, disk, settings(fsync=fsync)), 0, [])
    return disk.calls


@pytest.mark.parametrize("survives", [(1, 1), (0, 1)], ids=["kill", "all unsynced lost"])
def test_a_producer_goes_on_where_it_was(tmp_path: Path, survives: tuple[int, int]) -> None:
    fsync = survives != (1, 1)
    calls = count_calls(tmp_path / "all", fsync=fsync)
    assert calls > 40
    for n in points(calls, 60):
        root = tmp_path / str(n)
        disk, answered = FaultyDisk(power_off_at=n), list[int]()
        with pytest.raises(PowerOff):
            live(House(root, disk, settings(fsync=fsync)), 0, answered)
        disk.lose(*survives)
        house = House(root, settings=settings(fsync=fsync))
        assert house.partition.log.recovered.damage is None, f"call {n}"
        house.append(batch(b"others", producer=9, sequence=0))
        live(house, len(answered), answered)
        house = House(root, settings=settings(fsync=fsync))
        stored = [one for one in house.partition.log.batches(Offset(0)) if not one.is_control]
        mine = [record.value for one in stored if one.producer_id == 7 for record in records_of(one)]
        assert mine == [b"%d" % number for number in range(COUNT)], f"call {n}"
        aborted = {(one.producer_id, one.first_offset) for one in house.partition.log.aborted.entries}
        for one in stored:
            if one.producer_id == 8:
                open_still = house.partition.offsets.stable <= one.base_offset
                assert open_still or (8, one.base_offset) in aborted, f"call {n}"
        shutil.rmtree(root)
