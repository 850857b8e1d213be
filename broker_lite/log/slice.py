"""A stretch of whole batches in a file, not read yet.

It holds a lease on its file until released, so it can be sent long after the segment was rolled, closed or deleted.
Where descriptors have run out it holds the bytes instead.
"""

from __future__ import annotations

from broker_lite.errors import StorageFailed
from broker_lite.log.disk import File


class FileSlice:
    __slots__ = ("_bytes", "_file", "_length", "_position")

    def __init__(self, file: File, position: int, length: int) -> None:
        self._file: File | None = None  # while it has no lease to give back
        file.acquire()
        self._file = file
        self._position = position
        self._length = length
        self._bytes: bytes | None = None

    @classmethod
    def read_now(cls, file: File, position: int, length: int) -> FileSlice:
        """The bytes themselves, and no lease."""
        piece = cls(file, position, length)
        data = piece.read_all()
        piece.release()
        piece._bytes = data
        return piece

    def __len__(self) -> int:
        return self._length

    @property
    def position(self) -> int:
        """Where it begins in its file."""
        return self._position

    def lies_in(self, file: File) -> bool:
        """Whether it is a stretch of this file, and not of a copy."""
        return self._file is file

    def pread(self, position: int, count: int) -> bytes:
        """As a file of its own, for a walk through its headers."""
        return self.read(position, count)

    def read(self, start: int, count: int) -> bytes:
        """`count` bytes from `start` on, fewer only at the end of the slice. A thread may call this."""
        count = min(count, self._length - start)
        if self._bytes is not None:
            return self._bytes[start : start + count]
        if self._file is None:
            raise StorageFailed("the slice was released before it was read")
        try:
            data = self._file.pread(self._position + start, count)
        except OSError as error:
            raise StorageFailed(f"cannot read {self._file.path}: {error}") from error
        if len(data) != count:
            raise StorageFailed(f"{self._file.path} ends {count - len(data)} bytes early")
        return data

    def send(self, socket: int, start: int) -> int:
        """What lies from `start` on, or some of it, into a socket that does not wait. OSError says why not."""
        if self._file is None:
            return 0
        return self._file.send(socket, self._position + start, self._length - start)

    def read_all(self) -> bytes:
        return self.read(0, self._length)

    def release(self) -> None:
        """Give the lease back; a second time does nothing."""
        file, self._file = self._file, None
        if file is not None:
            file.release()

    def __del__(self) -> None:
        self.release()
