"""Messages on a stream: four bytes of length, then that many bytes.

The length is believed only up to a limit, and checked before anything is kept for it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from broker_lite.errors import Malformed
from broker_lite.wire.codec import Piece

_size = struct.Struct(">i")


class Framer:
    """Bytes in as they come, frames out as they are whole."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._kept = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[memoryview]:
        """Every frame that is whole now, its length cut off; Malformed at the first length that is impossible."""
        self._kept += data
        pos = 0
        try:
            while len(self._kept) - pos >= 4:
                (size,) = _size.unpack_from(self._kept, pos)
                check_size(size, self.max_bytes)
                stop = pos + 4 + size
                if stop > len(self._kept):
                    break
                frame = bytes(memoryview(self._kept)[pos + 4 : stop])
                pos = stop
                yield memoryview(frame)
        finally:
            del self._kept[:pos]

    @property
    def waiting(self) -> int:
        """Bytes kept of a frame that is not whole yet."""
        return len(self._kept)


def check_size(size: int, max_bytes: int) -> None:
    """Refuse a length that no frame may have."""
    if size < 0 or size > max_bytes:
        raise Malformed(f"a frame of {size} bytes; between 0 and {max_bytes} are read")


def framed(header: bytes, pieces: Sequence[Piece]) -> list[Piece]:
    """Length, header and message, ready for the socket; only the header is copied."""
    size = len(header) + sum(map(len, pieces))
    first = pieces[0]
    assert isinstance(first, bytes), "a message starts with its own bytes"
    return [_size.pack(size) + header + first, *pieces[1:]]
