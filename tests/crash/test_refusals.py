"""A disk that says no: full, broken, or taking half of a write."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_lite.errors import StorageFailed
from broker_lite.ids import Offset
from broker_lite.log.disk import RealDisk
from broker_lite.log.settings import Cleanup
from broker_lite.log.sync import NotBegun
from tests.crash.faulty_disk import FaultyDisk
from tests.crash.refusing_disk import RefusingDisk
from tests.log.building import NOW, append, fill, open_log, read_all


def test_a_refused_append_leaves_no_trace_and_the_next_one_works(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "t-0", disk)
    fill(log, 3)
    before, end = read_all(log), log.end
    disk.refuse_at, disk.refusing = disk.calls + 1, "append"
    with pytest.raises(StorageFailed, match=r"cannot append to 0{20}.log: .*refused by the test"):
        append(log, b"lost")
    assert (read_all(log), log.end) == (before, end)
    assert log.segments[-1].path.read_bytes() == before
    assert append(log, b"kept") == end
    log.close(clean=False)
    log = open_log(tmp_path / "t-0")
    assert log.end == end + 1
    assert log.recovered.torn is None


@pytest.mark.parametrize("restarted", [False, True], ids=["heals", "dies"])
def test_a_log_that_cannot_be_cut_back_takes_no_batch_before_it_can(tmp_path: Path, restarted: bool) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "t-0", disk)
    fill(log, 3)
    before = read_all(log)
    disk.refuse_at, disk.lasting, disk.error = disk.calls + 1, True, errno.EIO
    for _ in range(2):
        with pytest.raises(StorageFailed):
            append(log)
    assert read_all(log) == before
    assert log.segments[0].path.stat().st_size > len(before)
    with pytest.raises(StorageFailed, match=r"cannot cut 0{20}.log back"):
        log.close(clean=True) if restarted else append(log)
    if restarted:
        log = open_log(tmp_path / "t-0")
        assert read_all(log) == before
        assert log.recovered.torn is not None
    disk.refuse_at = 0
    append(log, b"kept")
    expected = read_all(log)
    log.close(clean=True)
    for clean in (True, False):
        again = open_log(tmp_path / "t-0", clean=clean)
        assert read_all(again) == expected
        assert again.recovered.torn is None
        again.close(clean=False)


def test_a_failed_sync_is_the_end_of_the_file(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "t-0", disk)
    fill(log, 3)
    disk.refuse_at, disk.refusing, disk.error = disk.calls + 1, "sync", errno.EIO
    with pytest.raises(StorageFailed, match="cannot sync"):
        log.flush()
    assert log.recovery_point == 0
    assert log.unflushed() is None
    with pytest.raises(StorageFailed, match="cannot sync"):
        append(log)


@pytest.mark.parametrize("n", range(1, 6))
def test_a_roll_that_is_refused_is_tried_again_by_the_next_append(tmp_path: Path, n: int) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "t-0", disk, segment_bytes=200)
    append(log, b"x" * 100)
    disk.refuse_at = disk.calls + n
    refused = 0
    for _ in range(3):
        try:
            append(log, b"x" * 100)
        except StorageFailed:
            refused += 1
    assert refused <= 1
    assert log.end == 4 - refused
    expected = read_all(log)
    log.close(clean=True)
    for clean in (True, False):
        again = open_log(tmp_path / "t-0", clean=clean, segment_bytes=200)
        assert read_all(again) == expected
        assert again.max_timestamp() == (NOW, 0)
        again.close(clean=False)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", ["append_bytes", "open"])
def test_a_file_that_a_refused_roll_left_behind_costs_no_batch(tmp_path: Path, kind: str, clean: bool) -> None:
    """The next batch would fit into the old segment. There it would lie behind the name of a later one."""
    disk = RefusingDisk()
    log = open_log(tmp_path / "t-0", disk, segment_bytes=400)
    append(log, b"x" * 100)
    disk.refuse(kind, path="*1.log")
    with pytest.raises(StorageFailed, match="cannot roll"):
        append(log, b"x" * 300)
    with pytest.raises(StorageFailed, match="cannot roll"):
        append(log, b"y" * 10)
    disk.heal()
    assert append(log, b"y" * 10) == 1
    expected = read_all(log)
    log.close(clean=clean)
    again = open_log(tmp_path / "t-0", clean=clean, segment_bytes=400)
    assert (again.end, read_all(again)) == (2, expected)
    assert again.recovered.damage is None


def test_a_sync_that_fails_in_a_roll_is_the_end_of_the_log(tmp_path: Path) -> None:
    disk = RefusingDisk()
    log = open_log(tmp_path / "t-0", disk, segment_bytes=200, sync_rolls=True)
    append(log, b"x" * 100)
    disk.refuse("sync_dir", error=errno.EIO)
    with pytest.raises(StorageFailed, match="cannot roll"):
        append(log, b"x" * 100)
    disk.heal()
    with pytest.raises(StorageFailed, match="cannot sync t-0"):
        append(log, b"x" * 100)


def test_the_first_batch_is_tried_again_where_its_file_could_not_be_made(tmp_path: Path) -> None:
    for kind, path in (("mkdir", "*"), ("write_atomic", "*"), ("open", "*.log"), ("append", "*.log")):
        disk = RefusingDisk()
        log = open_log(tmp_path / kind, disk, make=False)
        disk.refuse(kind, path=path)
        for _ in range(2):
            with pytest.raises(StorageFailed):
                append(log)
        disk.heal()
        assert append(log) == 0
        expected = read_all(log)
        log.close(clean=False)
        again = open_log(tmp_path / kind)
        assert read_all(again) == expected


def test_an_index_that_could_not_be_written_is_made_again(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "t-0", disk)
    fill(log, 30)
    disk.refuse_at, disk.refusing = disk.calls + 1, "append_bytes"
    log.save_index()
    assert not log.segments[0].path.with_suffix(".timeindex").exists()
    log.flush()
    assert log.recovery_point == log.end
    fill(log, 1)
    log.close(clean=False)
    log = open_log(tmp_path / "t-0", recovery_point=log.recovery_point)
    assert log.max_timestamp() == (NOW + 29, log.end - 2)
    assert next(log.find_time(NOW + 25)).max_timestamp == NOW + 25


@pytest.mark.parametrize("delay_ms", [0, 60_000])
def test_a_deletion_that_is_refused_is_finished_later(tmp_path: Path, delay_ms: int) -> None:
    disk = RefusingDisk()
    log = open_log(tmp_path / "t-0", disk, segment_bytes=300, cleanup=Cleanup(file_delete_delay_ms=delay_ms))
    log.epochs.assign(0, Offset(0), sync=False)
    fill(log, 10)
    log.epochs.assign(1, log.end, sync=False)
    fill(log, 10)
    disk.refuse("remove", "rename", path="*.log")
    disk.refuse("write_atomic", path="*leader-epoch*")
    log.truncate_start(Offset(20))
    assert (log.start, log.segments[0].base) == (20, 0)
    assert log.read(Offset(20), max_bytes=100, end=log.end) is not None
    with pytest.raises(OSError, match="refused by the test"):
        log.tidy()
    disk.heal()
    log.tidy()
    assert log.segments[0].base > 0
    assert min(int(path.stem) for path in (tmp_path / "t-0").glob("*.log")) == log.segments[0].base
    assert (tmp_path / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n1 20\n"
    log.close(clean=False)
    assert open_log(tmp_path / "t-0", log_start=20, segment_bytes=300).start == 20


def test_a_log_without_a_descriptor_left_works_again_when_there_is_one(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 3)
    end = log.end
    log.segments[0].file.close()
    log = open_log(tmp_path / "t-0", RealDisk(max_open=16), clean=False)
    log.segments[0].file.drop()  # type: ignore[attr-defined]
    log.epochs.assign(5, log.end, sync=False)
    with no_descriptors_left():
        for attempt in range(2):
            with pytest.raises(StorageFailed, match="Too many open files"):
                append(log, epoch=5 + attempt)
        with pytest.raises(StorageFailed, match="Too many open files"):
            log.read(Offset(0), max_bytes=1000, end=log.end)
    assert append(log, epoch=7) == end
    assert log.read(Offset(0), max_bytes=1000, end=log.end) is not None


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_sync_that_cannot_even_open_its_file_is_no_failed_sync(tmp_path: Path) -> None:
    disk = RefusingDisk()
    log = open_log(tmp_path / "t-0", disk)
    fill(log, 3)
    disk.evict()
    disk.refuse("open", error=errno.EMFILE)
    with pytest.raises(NotBegun, match=r"cannot open 0{20}\.log to sync it"):
        log.unflushed()
    with pytest.raises(StorageFailed, match="cannot read t-0"):
        log.read(Offset(0), max_bytes=100, end=log.end)
    disk.heal()
    log.flush()
    assert log.recovery_point == log.end
