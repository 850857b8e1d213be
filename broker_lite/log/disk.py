"""The disk as the log sees it: the only calls to os.* in the house.

A `File` is a name with a descriptor that comes and goes.  It is opened when first used and may be closed behind
the user's back when too many are open (second chance: a file used since the last look stays), so ten thousand
partitions work with a thousand descriptors.  Two things pin a descriptor:

- a *lease*, taken by whoever hands the file to a thread or to a socket.  While one is held the descriptor stays,
  even if the file is closed and unlinked meanwhile; it goes when the last lease ends, so a descriptor number is
  never reused under a thread;
- nothing else.

`sync` may run in a thread that holds a lease.  A failed sync is the end of the file: the kernel has dropped the
dirty pages and the next sync would report success, so everything after it is refused.

Folders are 0700, files 0600; a symbolic link where a file should be is refused.
All failures are OSError; the log gives them Kafka's number.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from broker_lite.log.memory_disk import MemoryDisk as MemoryDisk
from broker_lite.log.port import Bytes as Bytes
from broker_lite.log.port import Disk as Disk
from broker_lite.log.port import File as File
from broker_lite.log.port import Lock as Lock

_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW
_READ = os.O_RDONLY | _FLAGS
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | _FLAGS
_fdatasync = getattr(os, "fdatasync", os.fsync)
_fadvise = getattr(os, "posix_fadvise", None)
_FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)
"""On macOS fsync only hands the bytes to the drive, which may keep them in its cache; this asks for the platter."""
_NOT_OFFERED = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOTTY})
"""By this file system."""
COPY_CHUNK = 1 << 20
_SMALL = 1 << 16


def _sync_fully(fd: int, usual: Callable[[int], None]) -> None:
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(fd, _FULL_SYNC)
            return
        except OSError as error:
            if error.errno not in _NOT_OFFERED:
                raise
    usual(fd)


class RealFile:
    __slots__ = ("_closed", "_disk", "_failed", "_fd", "_flags", "_leases", "_path", "used")

    def __init__(self, disk: RealDisk, path: Path, flags: int, size: int | None) -> None:
        self._disk = disk
        self._path = path
        self._flags = flags
        self._fd = -1
        self._leases = 0
        self._closed = False
        self._failed = False
        self.used = False
        if size is None:
            self._descriptor()  # it is made, or found missing, now

    def _descriptor(self) -> int:
        self.used = True
        if self._fd < 0:
            if self._closed:
                raise OSError(errno.EBADF, "the file is closed", str(self._path))
            self._fd = self._disk.admit(self, self._flags)
        return self._fd

    @property
    def path(self) -> Path:
        return self._path

    @property
    def size(self) -> int:
        return os.fstat(self._descriptor()).st_size

    @property
    def pinned(self) -> bool:
        return self._leases > 0

    def append(self, buffers: Sequence[Bytes]) -> None:
        if self._failed:
            raise OSError(errno.EIO, "a sync of this file failed before", str(self._path))
        fd = self._fd
        if fd < 0:
            fd = self._descriptor()
        self.used = True
        written = os.writev(fd, buffers)
        if written != sum(map(len, buffers)):
            self._write_rest(fd, buffers, written)

    def _write_rest(self, fd: int, buffers: Sequence[Bytes], written: int) -> None:
        """A short write is not an error, but the call after it tells why, if there is a reason."""
        rest = b"".join(buffers)[written:]
        while rest:
            count = os.write(fd, rest)
            if count == 0:
                raise OSError(errno.EIO, "the disk takes no more bytes", str(self._path))
            rest = rest[count:]

    def pread(self, position: int, count: int) -> bytes:
        fd = self._fd
        if fd < 0:
            fd = self._descriptor()
        self.used = True
        data = os.pread(fd, count, position)
        if len(data) == count or not data:
            return data
        parts = [data]
        got = len(data)
        while got < count and (data := os.pread(fd, count - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def send(self, socket: int, position: int, count: int) -> int:
        return os.sendfile(socket, self._descriptor(), position, count)

    def expect(self, position: int, count: int) -> None:
        if self._fd >= 0 and _fadvise is not None:
            with suppress(OSError):
                _fadvise(self._fd, position, count, os.POSIX_FADV_WILLNEED)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor(), size)

    def sync(self) -> None:
        if self._failed:
            raise OSError(errno.EIO, "a sync of this file failed before", str(self._path))
        try:
            _sync_fully(self._descriptor(), _fdatasync)
        except OSError:
            self._failed = True
            raise

    def acquire(self) -> None:
        with self._disk.guard:
            self._descriptor()
            self._disk.leased += not self._leases
            self._leases += 1

    def release(self) -> None:
        with self._disk.guard:
            assert self._leases > 0, f"{self._path} has no lease to give back"
            self._leases -= 1
            if not self._leases:
                self._disk.leased -= 1
                if self._closed:
                    self.drop()

    def close(self) -> None:
        with self._disk.guard:
            self._closed = True
            if not self._leases:
                self.drop()

    def drop(self) -> None:
        """Give the descriptor back; the next use opens the file again."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._disk.left(self)
            os.close(fd)


class FileLock:
    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class RealDisk:
    """`max_open` bounds the descriptors that nobody has leased; by default half of what the process may have."""

    def __init__(self, *, max_open: int | None = None) -> None:
        if max_open is None:
            soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            max_open = 8192 if soft == resource.RLIM_INFINITY else max(16, min(8192, soft // 2))
        self.max_open = max_open
        self.guard = threading.RLock()
        """Over leases and the list of open files: a thread may give its lease back."""
        self.leased = 0
        self._open: deque[RealFile] = deque()

    @property
    def open_files(self) -> int:
        return len(self._open)

    @property
    def crowded(self) -> bool:
        return self.leased >= self.max_open - self.max_open // 4

    def admit(self, file: RealFile, flags: int) -> int:
        """Open `file`, after closing others if there are too many."""
        with self.guard:
            if len(self._open) >= self.max_open:
                self._evict()
            try:
                fd = os.open(file.path, flags, 0o600)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
                for other in [other for other in self._open if not other.pinned]:
                    other.drop()
                fd = os.open(file.path, flags, 0o600)
            self._open.append(file)
            return fd

    def left(self, file: RealFile) -> None:
        if self._open and self._open[0] is file:
            self._open.popleft()
        else:
            self._open.remove(file)

    def _evict(self) -> None:
        """Close a few of the files that were not used since the last look; if all are leased, none."""
        room = max(1, self.max_open // 16)
        for _ in range(2 * len(self._open)):
            if len(self._open) <= self.max_open - room:
                return
            file = self._open[0]
            if file.pinned or file.used:
                file.used = False
                self._open.rotate(-1)
            else:
                file.drop()

    def open_append(self, path: Path, *, size: int | None = None) -> RealFile:
        return RealFile(self, path, _APPEND, size)

    def open_read(self, path: Path) -> RealFile:
        return RealFile(self, path, _READ, None)

    def read_bytes(self, path: Path) -> bytes:
        fd = os.open(path, _READ)
        try:
            parts = []
            while part := os.read(fd, COPY_CHUNK):
                parts.append(part)
                if len(part) < _SMALL:
                    break  # most files are small, and a regular file gives all it has
            return b"".join(parts)
        finally:
            os.close(fd)

    def _write(self, path: Path, data: Bytes, flags: int, *, sync: bool) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | _FLAGS | flags, 0o600)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            if sync:
                _sync_fully(fd, os.fsync)
        finally:
            os.close(fd)

    def write_atomic(self, path: Path, data: Bytes, *, sync: bool) -> None:
        scratch = path.with_name(path.name + ".tmp")
        self._write(scratch, data, os.O_TRUNC, sync=sync)
        os.replace(scratch, path)
        if sync:
            self.sync_dir(path.parent)

    def append_bytes(self, path: Path, data: Bytes) -> None:
        self._write(path, data, os.O_APPEND, sync=False)

    def truncate(self, path: Path, size: int) -> None:
        os.truncate(path, size)

    def replace(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def copy(self, source: Path, target: Path, *, start: int = 0) -> None:
        scratch = target.with_name(target.name + ".tmp")
        original = os.open(source, _READ)
        try:
            self._write(scratch, b"", os.O_TRUNC, sync=False)
            while data := os.pread(original, COPY_CHUNK, start):
                self._write(scratch, data, os.O_APPEND, sync=False)
                start += len(data)
        finally:
            os.close(original)
        self.sync_path(scratch)
        os.replace(scratch, target)
        self.sync_dir(target.parent)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        folder = os.fspath(path)
        try:  # a partition has no folders in it, and this takes a third of the time
            for name in os.listdir(folder):
                os.unlink(f"{folder}/{name}")
            os.rmdir(folder)
        except (IsADirectoryError, PermissionError):
            shutil.rmtree(path)

    def list(self, path: Path) -> list[str]:
        return os.listdir(path)

    def sizes(self, path: Path) -> dict[str, int]:
        with os.scandir(path) as entries:
            return {e.name: e.stat(follow_symlinks=False).st_size for e in entries if e.is_file(follow_symlinks=False)}

    def exists(self, path: Path) -> bool:
        return os.path.lexists(path)

    def mkdir(self, path: Path) -> None:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def sync_path(self, path: Path) -> None:
        self._sync(path, _READ)

    def sync_dir(self, path: Path) -> None:
        self._sync(path, _READ | os.O_DIRECTORY)

    def _sync(self, path: Path, flags: int) -> None:
        fd = os.open(path, flags)
        try:
            _sync_fully(fd, os.fsync)
        finally:
            os.close(fd)

    def lock(self, path: Path) -> FileLock:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return FileLock(fd)
