"""Replies on their way out: small pieces joined, large ones alone, lazy ones read when the socket is ready for them.

Long ones that lie on disk go from there to the socket, past us, where nothing encrypts them.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Sequence, Sized
from typing import Protocol, TypeGuard

from broker_lite.broker.responses import ResponseChunk

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

    def send(self, socket: int, start: int, /) -> int: ...

    def release(self) -> None: ...


class Transport(Protocol):
    """As much of asyncio's as we need."""

    def write(self, data: Plain, /) -> None: ...

    def get_write_buffer_size(self) -> int: ...

    def is_closing(self) -> bool: ...

    def get_extra_info(self, name: str, /) -> socket.socket: ...


class ClosedTransport:
    """Of a connection that is lost. A transport of TLS holds on to its protocol and to 60 to 300 KiB of buffers; if the
    protocol held on to it, too, they would stay until the garbage collector came by."""

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass


CLOSED = ClosedTransport()


class Outbox:
    """Pieces in the order in which they leave."""

    __slots__ = ("_sent", "is_long", "queue")

    def __init__(self) -> None:
        self.queue: deque[Sized] = deque()
        self._sent = 0
        """How much of the first piece has left already."""
        self.is_long = False
        """Worth the trouble of `send`."""

    def __bool__(self) -> bool:
        return bool(self.queue)

    def put(self, pieces: Sequence[Sized]) -> int:
        """Returns how many bytes that will be."""
        self.queue.extend(pieces)
        size = sum(map(len, pieces))
        if size > CHUNK:
            self.is_long = True
        return size

    def write_to(self, transport: Transport, *, encrypted: bool) -> int:
        """Some more of what waits; how many bytes that were.

        A long reply goes from the page cache to the socket, at two thirds of the cost. Only if the transport has
        nothing that was said before; when the socket is full, the transport gets the next chunk and tells when there
        is room. The number of a socket that is closing may be another's already.
        """
        if self.is_long and not encrypted and not transport.get_write_buffer_size() and not transport.is_closing():
            sent = self.send(transport.get_extra_info("socket").fileno())
            if sent:
                return sent
        part = self.next_write()
        transport.write(part)
        return len(part)

    def send(self, number: int) -> int:
        """Straight into a socket for which nothing else waits: as much of the first piece as it takes now."""
        piece, start = self.queue[0], self._sent
        try:
            if isinstance(piece, _PLAIN):
                sent = os.write(number, memoryview(piece)[start:])
            else:
                assert is_lazy(piece)
                sent = piece.send(number, start)
        except OSError:
            return 0  # full, gone, or a bad disk: whoever tries the other way finds out which
        self._left(piece, start + sent)
        return sent

    def _left(self, piece: Sized, sent: int) -> None:
        """A piece is released with its last byte."""
        self._sent = sent
        if sent == len(piece):
            self._sent = 0
            self.queue.popleft()
            release(piece)
            if not self.queue:
                self.is_long = False

    def next_write(self) -> Plain:
        """What to write next: some small pieces joined, or one chunk of a large one."""
        queue = self.queue
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
        """As much of the first piece as goes at once."""
        piece, start = self.queue[0], self._sent
        size = len(piece)
        part: Plain
        if isinstance(piece, _PLAIN):
            part = piece if size <= JOIN else memoryview(piece)[start : start + CHUNK]
        else:
            assert is_lazy(piece)
            part = piece.read(start, min(CHUNK, size - start))
            if not part and size:
                raise EOFError(f"a piece of {size} bytes ended after {start}")
        self._left(piece, start + len(part))
        return part

    def is_overdue(self, now: float) -> bool:
        """Whether what waits here is a long response that keeps others from theirs, for too long."""
        last = self.queue[-1] if self.queue else None
        return isinstance(last, ResponseChunk) and last.is_overdue(now)

    def clear(self) -> None:
        """Nobody will read this any more."""
        for piece in self.queue:
            release(piece)
        self.queue.clear()
        self.is_long = False


def release(piece: Sized) -> None:
    if is_lazy(piece):
        piece.release()


def is_lazy(piece: Sized) -> TypeGuard[Lazy]:
    return not isinstance(piece, _PLAIN)
