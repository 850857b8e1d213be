"""A disk that refuses for a while: calls of some kinds, on some paths, or whatever needs room once it is full.

    disk.refuse("sync", "sync_dir", path="*/t-0*", error=errno.EIO)     those calls fail
    disk.fill(1000)                                                     after 1000 more bytes writes come up short
    disk.heal()                                                         all is well again

Kinds are the methods of `Disk` and `File` that change something, and `open`.  An atomic write is what it is made of:
`write_atomic`, then `sync`, `replace`, and, with the new content in its place, `sync_dir`.

A crash is a copy of the folder (`crash_copy`): calls from other threads wait meanwhile, so what is copied is a moment.
"""

from __future__ import annotations

import errno
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from broker_lite.broker import broker as broker_module
from broker_lite.log.disk import Bytes, Disk, File, RealFile
from tests.crash.faulty_disk import FaultyDisk, FaultyFile

NEEDS_ROOM = frozenset({"append", "append_bytes", "write_atomic", "copy"})


@dataclass(frozen=True)
class Refusal:
    kinds: frozenset[str]
    path: str
    error: int

    def hits(self, kind: str, path: Path) -> bool:
        return (not self.kinds or kind in self.kinds) and fnmatch(str(path), self.path)


class RefusingFile(FaultyFile):
    _disk: RefusingDisk

    def _open(self) -> None:
        if isinstance(self._file, RealFile) and self._file._fd < 0:
            self._disk.meet("open", self.path)

    def append(self, buffers: Sequence[Bytes]) -> None:
        with self._disk.gate:
            self._open()
            data = b"".join(buffers)
            self._disk.meet("append", self.path, len(data), lambda count: self._file.append([data[:count]]))
            super().append(buffers)

    def pread(self, position: int, count: int) -> bytes:
        self._open()
        return super().pread(position, count)

    def truncate(self, size: int) -> None:
        with self._disk.gate:
            self._open()
            self._disk.meet("truncate", self.path)
            super().truncate(size)
            self._disk.synced[self.path] = min(size, self._disk.synced.get(self.path, 0))

    def sync(self) -> None:
        """What was written before it began is safe; as on a real disk, a file whose sync failed never is again."""
        with self._disk.gate:
            if self._disk.refused("sync", self.path):
                assert isinstance(self._file, RealFile)
                self._file._failed = True
            self._disk.meet("sync", self.path)
            self._file.sync()
            if self.path in self._disk.files:  # else it was deleted, or renamed, while it was leased
                self._disk.synced[self.path] = self._file.size

    def acquire(self) -> None:
        self._open()
        super().acquire()


class RefusingDisk(FaultyDisk):
    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.RLock()
        self.refusals: list[Refusal] = []
        self.room: int | None = None
        """Bytes until it is full."""
        self.refused_calls = 0

    def refuse(self, *kinds: str, path: str = "*", error: int = errno.ENOSPC) -> None:
        self.refusals.append(Refusal(frozenset(kinds), path, error))

    def fill(self, room: int = 0) -> None:
        self.room = room

    def heal(self) -> None:
        self.refusals.clear()
        self.room = None

    def evict(self) -> None:
        """Every descriptor that nobody has leased is closed, as when many files are in use."""
        for file in [file for file in self._disk._open if not file.pinned]:
            file.drop()

    @property
    def healthy(self) -> bool:
        return not self.refusals and self.room is None

    def refused(self, kind: str, path: Path) -> Refusal | None:
        return next((one for one in self.refusals if one.hits(kind, path)), None)

    def meet(self, kind: str, path: Path, size: int = 0, some: Callable[[int], object] | None = None) -> None:
        """Raise if the call is refused, after `some` of its bytes were written."""
        refusal = self.refused(kind, path)
        if refusal is not None:
            self._fail(refusal.error, kind, path, size // 2, some)
        if self.room is not None and kind in NEEDS_ROOM:
            if size > self.room:
                left, self.room = self.room, 0
                self._fail(errno.ENOSPC, kind, path, left, some)
            self.room -= size

    def _fail(self, error: int, kind: str, path: Path, count: int, some: Callable[[int], object] | None) -> None:
        self.refused_calls += 1
        if some is not None:
            some(count)
        raise OSError(error, f"refused by the test: {kind}", str(path))

    def crash_copy(self, root: Path, target: Path, *, keep: tuple[int, int] = (1, 1)) -> Path:
        """The folder as a crash would leave it now, with a part of what was appended and not synced."""
        with self.gate:
            shutil.copytree(root, target)
            sizes = {path: self.synced.get(path, 0) for path in self.files if path.is_relative_to(root)}
        for path, synced in sizes.items():
            copy = target / path.relative_to(root)
            if copy.exists():
                size = copy.stat().st_size
                with copy.open("rb+") as file:
                    file.truncate(min(size, synced) + max(0, size - synced) * keep[0] // keep[1])
        return target

    # --- the calls ------------------------------------------------------------------------------------------------

    def open_append(self, path: Path, *, size: int | None = None) -> File:
        if size is None:
            self.meet("open", path)
        opened = super().open_append(path, size=size)
        assert isinstance(opened, FaultyFile)
        return RefusingFile(self, opened._file)

    def write_atomic(self, path: Path, data: Bytes, *, sync: bool) -> None:
        scratch = path.with_name(path.name + ".tmp")
        with self.gate:
            self.meet("write_atomic", path, len(data), lambda count: scratch.write_bytes(data[:count]))
            if sync:
                self.meet("sync", scratch, len(data), lambda _: scratch.write_bytes(data))
            self.meet("replace", path, len(data), lambda _: scratch.write_bytes(data))
            super().write_atomic(path, data, sync=sync)
            if sync:
                self.meet("sync_dir", path.parent)

    def append_bytes(self, path: Path, data: Bytes) -> None:
        with self.gate:
            self.meet("open", path)
            self.meet("append_bytes", path, len(data), lambda n: FaultyDisk.append_bytes(self, path, data[:n]))
            super().append_bytes(path, data)

    def truncate(self, path: Path, size: int) -> None:
        with self.gate:
            self.meet("truncate", path)
            super().truncate(path, size)

    def replace(self, source: Path, target: Path) -> None:
        with self.gate:
            self.meet("replace", target)
            super().replace(source, target)

    def rename(self, source: Path, target: Path) -> None:
        with self.gate:
            self.meet("rename", source)
            super().rename(source, target)
            for path in [path for path in self.files if path.is_relative_to(source)]:
                self.files.remove(path)
                self.files.add(target / path.relative_to(source))
                self.synced[target / path.relative_to(source)] = self.synced.pop(path, 0)

    def copy(self, source: Path, target: Path, *, start: int = 0) -> None:
        with self.gate:
            self.meet("copy", target, source.stat().st_size - start)
            super().copy(source, target, start=start)

    def remove(self, path: Path) -> None:
        with self.gate:
            self.meet("remove", path)
            super().remove(path)

    def remove_tree(self, path: Path) -> None:
        def half(_: int) -> None:
            for name in sorted(self.list(path))[::2]:
                FaultyDisk.remove(self, path / name)

        with self.gate:
            self.meet("remove_tree", path, 0, half if path.exists() else None)
            super().remove_tree(path)

    def mkdir(self, path: Path) -> None:
        with self.gate:
            self.meet("mkdir", path)
            super().mkdir(path)

    def sync_path(self, path: Path) -> None:
        with self.gate:
            self.meet("sync_path", path)
            super().sync_path(path)

    def sync_dir(self, path: Path) -> None:
        with self.gate:
            self.meet("sync_dir", path)
            super().sync_dir(path)


@contextmanager
def brokers_on(disk: Disk) -> Iterator[None]:
    """Brokers that are started meanwhile use `disk`."""
    before = vars(broker_module)["RealDisk"]
    vars(broker_module)["RealDisk"] = lambda: disk
    try:
        yield
    finally:
        vars(broker_module)["RealDisk"] = before
