"""What the log asks of a disk. A real one, one in memory and, in tests, one that fails answer to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

Bytes = bytes | bytearray | memoryview


class File(Protocol):
    @property
    def path(self) -> Path: ...

    @property
    def size(self) -> int: ...

    def append(self, buffers: Sequence[Bytes]) -> None:
        """All of it or an OSError; after an error the file may have grown by any part of it."""
        ...

    def pread(self, position: int, count: int) -> bytes:
        """At most `count` bytes; fewer only at the end of the file."""
        ...

    def send(self, socket: int, position: int, count: int) -> int:
        """From here into a socket that does not wait, without passing through us; how many bytes it took."""
        ...

    def expect(self, position: int, count: int) -> None:
        """Somebody will read this soon: have it at hand, if that can be done meanwhile. Never fails."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...

    def acquire(self) -> None: ...

    def release(self) -> None: ...

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    @property
    def crowded(self) -> bool:
        """Most descriptors are leased: read now rather than lease another."""
        ...

    def open_append(self, path: Path, *, size: int | None = None) -> File:
        """Made if missing. Who knows the size saves a call."""
        ...

    def open_read(self, path: Path) -> File: ...

    def read_bytes(self, path: Path) -> bytes: ...

    def write_atomic(self, path: Path, data: Bytes, *, sync: bool) -> None:
        """After a crash the old content or the new one, never a mixture; the new one if `sync` and it returned."""
        ...

    def append_bytes(self, path: Path, data: Bytes) -> None:
        """Made if missing."""
        ...

    def truncate(self, path: Path, size: int) -> None: ...

    def replace(self, source: Path, target: Path) -> None: ...

    def rename(self, source: Path, target: Path) -> None: ...

    def copy(self, source: Path, target: Path, *, start: int = 0) -> None:
        """From byte `start` on; durable when it returns."""
        ...

    def remove(self, path: Path) -> None:
        """A missing file is as good as removed."""
        ...

    def remove_tree(self, path: Path) -> None: ...

    def list(self, path: Path) -> list[str]: ...

    def sizes(self, path: Path) -> dict[str, int]:
        """The plain files of a folder and how long they are."""
        ...

    def exists(self, path: Path) -> bool: ...

    def mkdir(self, path: Path) -> None: ...

    def sync_path(self, path: Path) -> None: ...

    def sync_dir(self, path: Path) -> None: ...

    def lock(self, path: Path) -> Lock:
        """BlockingIOError if another process has it."""
        ...
