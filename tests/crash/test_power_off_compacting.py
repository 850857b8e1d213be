"""The power goes at each call to the disk while a log is compacted: a reader finds the same values, before and after.

Then the log is compacted again, to its end, and still says the same; and what the crash left behind is gone.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker_lite.log.disk import Disk, RealDisk
from broker_lite.log.settings import DAY_MS
from tests.crash.faulty_disk import FaultyDisk, PowerOff
from tests.crash.sampling import points
from tests.log.compacting import NOW, Kept

SURVIVES = [(1, 1), (0, 1), (1, 3)]


@dataclass
class Known:
    """What the checkpoint says, which is on the platter before the first swap."""

    point: int


def prepared(root: Path) -> Path:
    """A stopped log with a clean head, tombstones, committed and aborted transactions in several small segments."""
    kept = Kept(root, RealDisk(), segment_bytes=500)
    for number in range(12):
        kept.put((b"%d" % (number % 4), b"first %d" % number), (b"gone %d" % number, b"x"))
    for number in range(12):
        kept.put((b"gone %d" % number, None))
    kept.compact()
    for number in range(12):
        kept.put((b"%d" % (number % 4), b"second %d" % number), producer=1, transactional=True)
        kept.end(1, commit=number % 3 != 0, bump=number % 2 == 0)
        kept.put((b"%d" % (number % 5), b"third %d" % number), producer=2)
    kept.roll()
    kept.partition.close(clean=True)
    return root


def compact(root: Path, disk: Disk, known: Known, *, delay_ms: int = 0) -> Kept:
    """Two rounds, the second one so late that tombstones and markers go."""
    kept = Kept(root, disk, segment_bytes=500, recovery_point=None, file_delete_delay_ms=delay_ms)
    kept.partition.log.flush()
    known.point = kept.partition.log.recovery_point
    kept.compact(now_ms=NOW, max_keys=4)
    kept.put((b"0", b"between"))
    kept.roll()
    kept.partition.log.flush()
    known.point = kept.partition.log.recovery_point
    kept.compact(now_ms=NOW + 2 * DAY_MS)
    return kept


@pytest.mark.parametrize("delay_ms", [0, 60_000], ids=["removed at once", "removed later"])
@pytest.mark.parametrize("survives", SURVIVES, ids=["kill", "all unsynced lost", "a third left"])
def test_a_reader_finds_the_same_values_wherever_the_power_went(
    tmp_path: Path, survives: tuple[int, int], delay_ms: int
) -> None:
    origin = prepared(tmp_path / "origin")
    before = Kept(shutil.copytree(origin, tmp_path / "plain"), segment_bytes=500, recovery_point=None)
    values, last = before.fold(), before.partition.last_records()
    counting = FaultyDisk()
    after = compact(shutil.copytree(origin, tmp_path / "counted"), counting, Known(0), delay_ms=delay_ms)
    assert after.partition.log.size_bytes < before.partition.log.size_bytes
    assert counting.calls > 60
    for n in points(counting.calls, 40):
        root = shutil.copytree(origin, tmp_path / str(n))
        disk, known = FaultyDisk(power_off_at=n), Known(before.partition.log.end)
        with pytest.raises(PowerOff):
            compact(root, disk, known, delay_ms=delay_ms)
        disk.lose(*survives)
        disk.abandon()
        kept = Kept(root, segment_bytes=500, recovery_point=known.point)
        assert kept.partition.log.recovered.damage is None, f"call {n}"
        found = kept.fold()
        assert {**found, b"0": b""} == {**values, b"0": b""}, f"call {n}"
        assert found[b"0"] in (values[b"0"], b"between"), f"call {n}"
        assert kept.partition.last_records() == last, f"call {n}"
        assert not [name for name in kept.disk.list(kept.path) if name.endswith((".swap", ".cleaned", ".deleted"))]
        kept.compact(now_ms=NOW + 4 * DAY_MS)
        assert kept.fold() == found, f"call {n}"
        kept.partition.close(clean=False)
        shutil.rmtree(root)


@pytest.mark.slow
def test_the_power_goes_again_while_a_swap_is_finished(tmp_path: Path) -> None:
    origin = prepared(tmp_path / "origin")
    values = Kept(shutil.copytree(origin, tmp_path / "plain"), segment_bytes=500, recovery_point=None).fold()
    disk = FaultyDisk()
    compact(shutil.copytree(origin, tmp_path / "counted"), disk, Known(0))
    swapping = []
    for n in points(disk.calls, 60):
        root = shutil.copytree(origin, tmp_path / f"at {n}")
        off = FaultyDisk(power_off_at=n)
        with pytest.raises(PowerOff):
            compact(root, off, Known(0))
        off.abandon()
        if list((root / "t-0").glob("*.log.swap")):
            swapping.append(root)
    assert swapping
    for root in swapping[:: max(1, len(swapping) // 4)]:
        n, interrupted = 0, True
        while interrupted:
            n += 1
            again = shutil.copytree(root, tmp_path / f"{root.name} {n}")
            interrupted = False
            for _ in range(3):
                off = FaultyDisk(power_off_at=n)
                try:
                    Kept(again, off, segment_bytes=500, recovery_point=None)
                except PowerOff:
                    interrupted = True
                off.abandon()
            kept = Kept(again, segment_bytes=500, recovery_point=None)
            found = kept.fold()
            assert {**found, b"0": b""} == {**values, b"0": b""}
            kept.partition.close(clean=False)
            shutil.rmtree(again)
