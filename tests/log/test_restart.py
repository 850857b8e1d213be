"""A log that is closed and opened again, cleanly or not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker_lite.log.disk import RealDisk
from tests.log.building import NOW, append, fill, open_log, read_all, read_bytes


@pytest.mark.parametrize("clean", [True, False])
def test_everything_is_there_after_a_restart_and_goes_on(tmp_path: Path, clean: bool) -> None:
    log = open_log(tmp_path / "t-0", segment_bytes=900)
    fill(log, 40)
    before, end = read_all(log), log.end
    log.close(clean=clean)

    log = open_log(tmp_path / "t-0", segment_bytes=900, clean=clean)
    assert (read_all(log), log.end) == (before, end)
    assert log.max_timestamp() == (NOW + 39, end - 1)
    append(log, b"more", timestamp=NOW + 100)
    log.close(clean=clean)

    log = open_log(tmp_path / "t-0", segment_bytes=900, clean=clean)
    assert read_all(log).startswith(before)
    assert (log.end, log.max_timestamp()) == (end + 1, (NOW + 100, end))


def test_after_a_clean_stop_nothing_is_scanned(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 40)
    log.close(clean=True)
    assert open_log(tmp_path / "t-0", clean=True).recovered.scanned_from is None


def test_after_a_crash_the_scan_begins_near_the_recovery_point(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", segment_bytes=3000)
    fill(log, 100)
    log.flush()
    point, size = log.recovery_point, log.size_bytes
    fill(log, 3)
    grown = log.size_bytes - size
    log.close(clean=False)
    log = open_log(tmp_path / "t-0", recovery_point=point)
    assert log.recovered.scanned_from == point
    assert grown <= log.recovered.scanned_bytes < grown + 400


def test_indexes_are_the_same_whether_written_by_appends_or_by_recovery(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", segment_bytes=3000)
    fill(log, 100)
    log.flush()
    point = log.recovery_point
    fill(log, 50)
    log.close(clean=True)
    files = {path: path.read_bytes() for path in (tmp_path / "t-0").glob("*index")}
    assert any(files.values())
    for recovery_point in (0, point, None):
        open_log(tmp_path / "t-0", segment_bytes=3000, recovery_point=recovery_point).close(clean=True)
        assert {path: path.read_bytes() for path in (tmp_path / "t-0").glob("*index")} == files


def test_the_start_comes_from_the_checkpoint(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", segment_bytes=300)
    fill(log, 20)
    log.close(clean=True)
    log = open_log(tmp_path / "t-0", segment_bytes=300, clean=True, log_start=11)
    assert log.start == 11
    assert log.segments[0].base <= 11 < log.segments[1].base


def test_a_log_that_lost_everything_after_its_start_goes_on_at_its_start(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 3)
    log.close(clean=False)
    log = open_log(tmp_path / "t-0", log_start=50)
    assert (log.start, log.end) == (50, 50)
    assert append(log) == 50
    log.close(clean=False)
    log = open_log(tmp_path / "t-0", log_start=50)
    assert (log.start, log.end) == (50, 51)


@pytest.mark.parametrize("recovery_point", [None, 0])
@pytest.mark.parametrize("left", [0, 3])
def test_names_of_segments_that_outlived_their_bytes_do_not_leave_a_gap(
    tmp_path: Path, recovery_point: int | None, left: int
) -> None:
    """A power cut in the first seconds: the kernel had written the folder and not, or not all of, the files."""
    log = open_log(tmp_path / "t-0", segment_bytes=900)
    fill(log, 40)
    positions = [step.position for step in log.segments[0].steps()]
    first, *others = [segment.path for segment in log.segments]
    assert len(others) > 1
    log.close(clean=False)
    for path in others:
        os.truncate(path, 0)
    os.truncate(first, positions[left])
    for path in (tmp_path / "t-0").iterdir():
        if path.suffix != ".log":
            os.truncate(path, 0)

    log = open_log(tmp_path / "t-0", segment_bytes=900, recovery_point=recovery_point)
    assert log.recovered.damage is None
    assert len(log.segments) == 1
    assert log.end == (6 if left else 0)
    assert append(log, b"goes on") == log.end - 1
    assert read_all(open_log(tmp_path / "t-0", recovery_point=recovery_point)) == read_all(log)


def test_files_are_for_their_owner_only_and_links_are_refused(tmp_path: Path) -> None:
    disk = RealDisk()
    log = open_log(tmp_path / "data" / "t-0", disk)
    append(log)
    log.close(clean=True)
    assert (tmp_path / "data" / "t-0").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "data" / "t-0").iterdir()} == {0o600}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"")
    (tmp_path / "link").symlink_to(elsewhere)
    with pytest.raises(OSError, match="symbolic links"):
        disk.open_append(tmp_path / "link")


def test_one_process_has_the_folder(tmp_path: Path) -> None:
    lock = RealDisk().lock(tmp_path / ".lock")
    with pytest.raises(BlockingIOError):
        RealDisk().lock(tmp_path / ".lock")
    lock.release()
    RealDisk().lock(tmp_path / ".lock").release()


@pytest.mark.parametrize("clean", [True, False])
def test_messages_of_magic_0_and_1_that_an_old_kafka_left_are_stepped_over_and_kept(
    tmp_path: Path, clean: bool
) -> None:
    v0 = bytes.fromhex("0000000000000000 00000013 87A77AB2 00 00 FFFFFFFF 00000005 68656C6C6F")
    v1 = bytes.fromhex("0000000000000001 0000001B 1667D8AD 01 00 0000018F125C7400 FFFFFFFF 00000005 68656C6C6F")
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(v0 + v1)
    log = open_log(tmp_path / "t-0", clean=clean)
    assert (log.end, log.max_timestamp()) == (2, (1714000000000, 1))
    assert read_bytes(log, 0) == v0 + v1
    assert read_bytes(log, 1) == v1
    assert append(log) == 2
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(v0 + v1[:-1] + b"x")
    log = open_log(tmp_path / "t-0")
    assert log.end == 1
    assert log.recovered.torn is not None
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(v0[:-1] + b"x" + v1)
    log = open_log(tmp_path / "t-0")
    assert log.end == 0
    assert log.recovered.damage is not None
