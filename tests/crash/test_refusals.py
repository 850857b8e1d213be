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
from tests.crash.faulty_disk import FaultyDisk
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


def test_a_log_that_cannot_be_cut_back_goes_offline_and_heals_at_the_next_start(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "t-0", disk)
    fill(log, 3)
    before = read_all(log)
    disk.refuse_at, disk.lasting, disk.error = disk.calls + 1, True, errno.EIO
    for _ in range(2):
        with pytest.raises(StorageFailed):
            append(log)
    disk.refuse_at = 0
    with pytest.raises(StorageFailed, match="could not be cut back"):
        append(log)
    assert read_all(log) == before
    log.close(clean=False)
    log = open_log(tmp_path / "t-0")
    assert read_all(log) == before
    assert log.recovered.torn is not None
    append(log)


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


def test_a_deletion_that_is_refused_can_be_repeated(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "t-0", disk, segment_bytes=300)
    fill(log, 20)
    disk.refuse_at, disk.refusing = disk.calls + 1, "remove"
    with pytest.raises(StorageFailed, match="cannot delete"):
        log.truncate_start(Offset(20))
    assert log.start == 20
    log.truncate_start(Offset(21))
    log.close(clean=False)
    assert open_log(tmp_path / "t-0", log_start=21, segment_bytes=300).start == 21


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
