"""A disk on which the n-th call that changes something goes wrong.

It wraps a real one, so what is left behind are real files.  Three ways to go wrong:

- the power goes (`power_off_at`): half of that write happens, then nothing works any more;
- a call is refused (`refuse_at`, `refusing`), appends after half of their bytes, as a full disk does;
- after the power went, `lose` takes back a part of what was appended to files and not synced.

Names (create, rename, unlink) are taken to be in order and to survive, as on a journalling file system.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

from broker_lite.log.disk import Bytes, File, Lock, RealDisk


class PowerOff(BaseException):
    """No code may catch this: the process is gone."""


class FaultyFile:
    def __init__(self, disk: FaultyDisk, file: File) -> None:
        self._disk = disk
        self._file = file

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, buffers: Sequence[Bytes]) -> None:
        data = b"".join(buffers)
        self._disk.before("append", torn=lambda: self._file.append([data[: len(data) // 2]]))
        self._file.append(buffers)

    def pread(self, position: int, count: int) -> bytes:
        return self._file.pread(position, count)

    def send(self, socket: int, position: int, count: int) -> int:
        return self._file.send(socket, position, count)

    def expect(self, position: int, count: int) -> None:
        self._file.expect(position, count)

    def truncate(self, size: int) -> None:
        self._disk.before("truncate")
        self._file.truncate(size)

    def sync(self) -> None:
        self._disk.before("sync")
        self._file.sync()
        self._disk.synced[self.path] = self.path.stat().st_size

    def acquire(self) -> None:
        self._file.acquire()

    def release(self) -> None:
        self._file.release()

    def close(self) -> None:
        self._file.close()


class FaultyDisk:
    crowded = False

    def __init__(
        self,
        *,
        power_off_at: int = 0,
        refuse_at: int = 0,
        refusing: str = "",
        error: int = errno.ENOSPC,
        lasting: bool = False,
    ) -> None:
        self._disk = RealDisk()
        self.power_off_at = power_off_at
        self.refuse_at = refuse_at
        self.refusing = refusing
        self.error = error
        self.lasting = lasting
        self.calls = 0
        self.dead = False
        self.synced: dict[Path, int] = {}
        self.files: set[Path] = set()
        self._locks: list[Lock] = []

    def before(self, what: str, torn: object = None) -> None:
        """One more call that changes something; `torn` does half of it."""
        if self.dead:
            raise PowerOff
        self.calls += 1
        if self.calls == self.power_off_at:
            if callable(torn):
                torn()
            self.dead = True
            raise PowerOff
        hit = self.calls == self.refuse_at or (self.lasting and 0 < self.refuse_at < self.calls)
        if hit and self.refusing in ("", what):
            if callable(torn):
                torn()
            raise OSError(self.error, f"refused by the test: {what}")
        if self.refusing not in ("", what) and self.calls == self.refuse_at:
            self.refuse_at += 1  # wait for the next call of that kind

    def abandon(self) -> None:
        """The process is gone, and with it its descriptors."""
        for file in list(self._disk._open):
            file.drop()
        for lock in self._locks:
            lock.release()

    def lose(self, numerator: int, denominator: int) -> None:
        """Of the bytes appended and not synced only the first part survives."""
        for path in self.files:
            if path.exists():
                size = path.stat().st_size
                synced = min(size, self.synced.get(path, 0))
                with path.open("rb+") as file:
                    file.truncate(synced + (size - synced) * numerator // denominator)

    def open_append(self, path: Path, *, size: int | None = None) -> File:
        self.files.add(path)
        if path.exists():
            self.synced.setdefault(path, path.stat().st_size)
        return FaultyFile(self, self._disk.open_append(path, size=size))

    def open_read(self, path: Path) -> File:
        return FaultyFile(self, self._disk.open_read(path))

    def read_bytes(self, path: Path) -> bytes:
        return self._disk.read_bytes(path)

    def write_atomic(self, path: Path, data: Bytes, *, sync: bool) -> None:
        scratch = path.with_name(path.name + ".tmp")
        self.before("write_atomic", torn=lambda: scratch.write_bytes(data[: len(data) // 2]))
        self._disk.write_atomic(path, data, sync=sync)

    def append_bytes(self, path: Path, data: Bytes) -> None:
        self.before("append_bytes", torn=lambda: self._disk.append_bytes(path, data[: len(data) // 2]))
        self._disk.append_bytes(path, data)

    def truncate(self, path: Path, size: int) -> None:
        self.before("truncate")
        self._disk.truncate(path, size)

    def replace(self, source: Path, target: Path) -> None:
        self.before("replace")
        self._disk.replace(source, target)
        self._renamed(source, target)

    def rename(self, source: Path, target: Path) -> None:
        self.before("rename")
        self._disk.rename(source, target)
        self._renamed(source, target)

    def _renamed(self, source: Path, target: Path) -> None:
        """What was synced of a file stays synced under its new name."""
        self.synced.pop(target, None)
        self.files.discard(target)
        if source in self.files:
            self.files.remove(source)
            self.files.add(target)
            self.synced[target] = self.synced.pop(source, 0)

    def copy(self, source: Path, target: Path, *, start: int = 0) -> None:
        scratch = target.with_name(target.name + ".tmp")
        self.before("copy", torn=lambda: scratch.write_bytes(b"half"))
        self._disk.copy(source, target, start=start)

    def remove(self, path: Path) -> None:
        self.before("remove")
        self._disk.remove(path)
        self.files.discard(path)
        self.synced.pop(path, None)

    def remove_tree(self, path: Path) -> None:
        def half() -> None:
            for name in sorted(self._disk.list(path))[::2]:
                self._disk.remove(path / name)

        self.before("remove_tree", torn=half)
        self._disk.remove_tree(path)

    def list(self, path: Path) -> list[str]:
        return self._disk.list(path)

    def sizes(self, path: Path) -> dict[str, int]:
        return self._disk.sizes(path)

    def exists(self, path: Path) -> bool:
        return self._disk.exists(path)

    def mkdir(self, path: Path) -> None:
        self.before("mkdir")
        self._disk.mkdir(path)

    def sync_path(self, path: Path) -> None:
        self.before("sync_path")
        self._disk.sync_path(path)

    def sync_dir(self, path: Path) -> None:
        self.before("sync_dir")
        self._disk.sync_dir(path)

    def lock(self, path: Path) -> Lock:
        self._locks.append(self._disk.lock(path))
        return self._locks[-1]
