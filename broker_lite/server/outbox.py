"""Replies on their way out: small pieces joined, large ones alone, lazy ones read when the socket is ready for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, Sized
from typing import Protocol, TypeGuard

JOIN = 65_536
"""Pieces up to this size are joined; larger ones are written alone."""
CHUNK = 262_144
"""Large and lazy pieces go in such chunks: reading one does not hold up the loop, and a slow reader costs one."""

Plain = bytes | bytearray | memoryview
_PLAIN = (bytes, bytearray, memoryview)


class Lazy(Protocol):
    """A piece of a reply that lies on disk; whoever holds it releases it."""

    def __len__(self) -> int: ...

    def read(self, start: int, n: int, /) -> bytes: ...

    def release(self) -> None: ...


class Outbox:
    """Pieces in the order in which they leave."""

    __slots__ = ("_queue", "_sent")

    def __init__(self) -> None:
        self._queue: deque[Sized] = deque()
        self._sent = 0
        """How much of the first piece has left already."""

    def __bool__(self) -> bool:
        return bool(self._queue)

    def put(self, pieces: Sequence[Sized]) -> int:
        """Returns how many bytes that will be."""
        self._queue.extend(pieces)
        return sum(map(len, pieces))

    def next_write(self) -> Plain:
        """What to write next: some small pieces joined, or one chunk of a large one."""
        queue = self._queue
        small: list[Plain] = []
        size = 0
        while queue and size < JOIN:
            if len(queue[0]) - self._sent > JOIN:
                if small:
                    break
                return self._chunk()
            part = self._chunk()
            small.append(part)
            size += len(part)
        return small[0] if len(small) == 1 else b"".join(small)

    def _chunk(self) -> Plain:
        """As much of the first piece as goes at once. A lazy piece is released with its last byte."""
        piece, start = self._queue[0], self._sent
        size = len(piece)
        part: Plain
        if isinstance(piece, _PLAIN):
            part = piece if size <= JOIN else memoryview(piece)[start : start + CHUNK]
        else:
            assert is_lazy(piece)
            part = piece.read(start, min(CHUNK, size - start))
            if not part and size:
                raise EOFError(f"a piece of {size} bytes ended after {start}")
        self._sent = start + len(part)
        if self._sent == size:
            self._sent = 0
            self._queue.popleft()
            release(piece)
        return part

    def clear(self) -> None:
        """Nobody will read this any more."""
        for piece in self._queue:
            release(piece)
        self._queue.clear()


def release(piece: Sized) -> None:
    if is_lazy(piece):
        piece.release()


def is_lazy(piece: Sized) -> TypeGuard[Lazy]:
    return not isinstance(piece, _PLAIN)
