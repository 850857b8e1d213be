"""The power goes at each call to the disk in turn, in the middle of appending, rolling, checkpointing, recovering.

After it, for every n: what can be read is a beginning of what was appended, and it holds all that was promised.  In the
first sweep everything written survives, as after kill -9, so what append returned for is promised.  In the second one
unsynced bytes are lost, so only what flush returned for is.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from broker_lite.ids import Offset, TopicPartition
from broker_lite.log import checkpoints, layout
from broker_lite.log.disk import RealDisk
from broker_lite.log.log import Log
from tests.crash.faulty_disk import FaultyDisk, PowerOff
from tests.log.building import append, open_log, read_all

TP = TopicPartition("t", 0)


@dataclass
class History:
    tried: list[bytes] = field(default_factory=list)
    acknowledged: int = 0
    synced: int = 0
    start: int = 0


def live(root: Path, disk: FaultyDisk, history: History, *, sync_rolls: bool) -> None:
    """Appends that roll often, flushes, checkpoints, a deletion, a clean stop."""
    log = open_log(root / "t-0", disk, segment_bytes=400, sync_rolls=sync_rolls)
    log.epochs.assign(1, log.end, sync=True)
    checkpoints.write_offsets(disk, root / layout.RECOVERY_POINTS, {TP: log.recovery_point}, sync=True)
    for number in range(16):
        history.tried.append(b"value %d" % number)
        append(log, history.tried[-1], epoch=1)
        history.acknowledged += 1
        if number % 7 == 6:
            log.flush()
            history.synced = history.acknowledged
            checkpoints.write_offsets(disk, root / layout.RECOVERY_POINTS, {TP: log.recovery_point}, sync=True)
        if number == 12:
            checkpoints.write_offsets(disk, root / layout.LOG_STARTS, {TP: 6}, sync=True)
            log.truncate_start(Offset(6))
            history.start = 6
    log.close(clean=True)
    history.synced = history.acknowledged
    checkpoints.write_offsets(disk, root / layout.RECOVERY_POINTS, {TP: log.recovery_point}, sync=True)
    checkpoints.mark_clean_shutdown(disk, root)


def reopen(root: Path, disk: RealDisk | FaultyDisk | None = None) -> Log:
    disk = disk or RealDisk()
    clean = disk.exists(root / layout.CLEAN_SHUTDOWN)
    point = checkpoints.read_offsets(disk, root / layout.RECOVERY_POINTS).get(TP)
    start = checkpoints.read_offsets(disk, root / layout.LOG_STARTS).get(TP)
    return open_log(root / "t-0", disk, clean=clean, recovery_point=point, log_start=start, segment_bytes=400)


def values(log: Log) -> list[bytes]:
    return [bytes(one.buf[61:]) for one in log.batches(log.start)]


def count_calls(root: Path, *, sync_rolls: bool) -> int:
    disk = FaultyDisk()
    live(root, disk, History(), sync_rolls=sync_rolls)
    return disk.calls


def check(root: Path, history: History, *, promised: int) -> Log:
    log = reopen(root)
    found = values(log)
    assert log.start in (0, 6)
    assert log.start + len(found) == log.end
    assert promised <= log.end <= len(history.tried)
    for offset, body in enumerate(found, int(log.start)):
        assert history.tried[offset] in body
    assert log.epochs.latest in ((-1, 1) if log.end == 0 else (1,))
    return log


@pytest.mark.parametrize("survives", [(1, 1), (0, 1), (1, 3)], ids=["kill", "all unsynced lost", "a third left"])
@pytest.mark.parametrize("sync_rolls", [True, False], ids=["synced rolls", "plain rolls"])
def test_the_power_goes_at_each_call_in_turn(tmp_path: Path, survives: tuple[int, int], sync_rolls: bool) -> None:
    calls = count_calls(tmp_path / "all", sync_rolls=sync_rolls)
    assert calls > 40
    for n in range(1, calls + 1):
        root = tmp_path / str(n)
        root.mkdir()
        disk, history = FaultyDisk(power_off_at=n), History()
        with pytest.raises(PowerOff):
            live(root, disk, history, sync_rolls=sync_rolls)
        disk.lose(*survives)
        promised = history.acknowledged if survives == (1, 1) else history.synced
        log = check(root, history, promised=promised)
        if sync_rolls or survives == (1, 1):
            assert log.recovered.damage is None, f"call {n}"
            append(log, b"after", epoch=2)
        before = values(log)
        log.close(clean=False)
        again = reopen(root)
        assert values(again) == before
        shutil.rmtree(root)


def test_the_power_goes_again_at_each_call_of_the_recovery(tmp_path: Path) -> None:
    middle = count_calls(tmp_path / "all", sync_rolls=False) // 2
    disk, history = FaultyDisk(power_off_at=middle), History()
    with pytest.raises(PowerOff):
        live(tmp_path / "origin", disk, history, sync_rolls=False)
    last = max((tmp_path / "origin" / "t-0").glob("*.log"))
    with last.open("ab") as file:
        file.write(b"\x00\x00\x00\x00half a batch")
    expected = check(shutil.copytree(tmp_path / "origin", tmp_path / "plain"), history, promised=history.acknowledged)
    assert expected.recovered.torn is not None
    n = 0
    interrupted = True
    while interrupted:
        n += 1
        root = shutil.copytree(tmp_path / "origin", tmp_path / str(n))
        interrupted = False
        for _ in range(3):  # and again, in the recovery of the recovery
            try:
                reopen(root, FaultyDisk(power_off_at=n))
            except PowerOff:
                interrupted = True
        log = reopen(root)
        assert read_all(log) == read_all(expected)
        assert log.end == expected.end
    assert n > 5
