"""Both disks, seen through the port, and what only the real one has."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from broker_lite.log import disk as disk_module
from broker_lite.log.disk import Disk, MemoryDisk, RealDisk


@pytest.fixture(params=[RealDisk, MemoryDisk], ids=["files", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    made: Disk = request.param()
    made.mkdir(tmp_path / "root")
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def test_what_is_appended_is_read(disk: Disk, root: Path) -> None:
    file = disk.open_append(root / "a")
    file.append([b"ab", memoryview(b"cd"), bytearray(b"ef")])
    assert (file.size, file.pread(1, 3), file.pread(4, 100), file.pread(9, 1)) == (6, b"bcd", b"ef", b"")
    file.truncate(2)
    file.append([b"X"])
    assert disk.read_bytes(root / "a") == b"abX"
    assert disk.open_append(root / "a").size == disk.open_read(root / "a").size == 3


def test_a_missing_file_is_missing(disk: Disk, root: Path) -> None:
    for attempt in (disk.open_read, disk.read_bytes):
        with pytest.raises(FileNotFoundError):
            attempt(root / "none")
    with pytest.raises(FileNotFoundError):
        disk.read_bytes(root / "no" / "folder")
    disk.remove(root / "none")
    assert not disk.exists(root / "none")


def test_names_change_and_go(disk: Disk, root: Path) -> None:
    disk.write_atomic(root / "a", b"one", sync=True)
    disk.write_atomic(root / "a", b"two", sync=False)
    disk.append_bytes(root / "a", b"!")
    disk.replace(root / "a", root / "b")
    disk.copy(root / "b", root / "c", start=1)
    assert disk.sizes(root) == {"b": 4, "c": 3}
    disk.truncate(root / "c", 1)
    assert disk.read_bytes(root / "c") == b"w"
    disk.remove(root / "b")
    assert disk.list(root) == ["c"]


def test_folders_move_and_go(disk: Disk, root: Path) -> None:
    disk.mkdir(root / "t-0")
    disk.write_atomic(root / "t-0" / "x", b"1", sync=False)
    disk.rename(root / "t-0", root / "t-0-delete")
    assert disk.list(root) == ["t-0-delete"]
    assert disk.read_bytes(root / "t-0-delete" / "x") == b"1"
    disk.remove_tree(root / "t-0-delete")
    assert disk.list(root) == []
    assert not disk.exists(root / "t-0-delete")


def test_a_leased_file_is_read_after_it_was_closed_and_removed(disk: Disk, root: Path) -> None:
    file = disk.open_append(root / "a")
    file.append([b"abc"])
    file.acquire()
    file.close()
    disk.remove(root / "a")
    assert file.pread(0, 3) == b"abc"
    file.release()


def test_the_descriptor_goes_with_the_last_lease(tmp_path: Path) -> None:
    disk = RealDisk()
    file = disk.open_append(tmp_path / "a")
    before = len(os.listdir("/proc/self/fd"))
    file.acquire()
    file.acquire()
    file.close()
    file.release()
    assert len(os.listdir("/proc/self/fd")) == before
    file.release()
    assert len(os.listdir("/proc/self/fd")) == before - 1
    with pytest.raises(OSError, match="closed"):
        file.pread(0, 1)


def test_files_come_and_go_within_the_bound_and_lose_nothing(tmp_path: Path) -> None:
    disk = RealDisk(max_open=16)
    files = [disk.open_append(tmp_path / str(number)) for number in range(100)]
    for turn in range(3):
        for number, file in enumerate(files):
            file.append([b"%d.%d " % (number, turn)])
            assert disk.open_files <= 16
    for number, file in enumerate(files):
        assert file.pread(0, 100) == b"%d.0 %d.1 %d.2 " % (number, number, number)
    files[0].acquire()
    for file in files[1:]:
        file.pread(0, 1)
    assert files[0].pinned
    assert files[0].pread(0, 3) == b"0.0"


def test_a_short_write_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealDisk().open_append(tmp_path / "a")
    monkeypatch.setattr(os, "writev", lambda fd, buffers: os.write(fd, b"".join(buffers)[:5]))
    file.append([b"0123", b"456789"])
    assert (file.size, (tmp_path / "a").read_bytes()) == (10, b"0123456789")


@pytest.mark.parametrize(("answer", "asked_as_usual"), [(None, 0), (errno.ENOTSUP, 1), (errno.EIO, 0)])
def test_where_the_system_has_a_fuller_sync_that_is_the_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: int | None, asked_as_usual: int
) -> None:
    """As on macOS. A file system may lack it; a drive that fails is not asked in a way that would succeed."""
    usual: list[int] = []

    def fuller(_fd: int, _command: int) -> int:
        if answer is not None:
            raise OSError(answer, os.strerror(answer))
        return 0

    monkeypatch.setattr(disk_module, "_FULL_SYNC", 51)
    monkeypatch.setattr(disk_module, "_fdatasync", usual.append)
    file = RealDisk().open_append(tmp_path / "a")
    file.append([b"abc"])
    monkeypatch.setattr(fcntl, "fcntl", fuller)
    if answer == errno.EIO:
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            file.sync()
    else:
        file.sync()
    assert len(usual) == asked_as_usual
