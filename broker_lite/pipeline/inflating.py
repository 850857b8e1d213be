"""Inflate in one call where it is known beforehand that the result is small, three times as fast as piece by piece.

An LZ4 block grows at most 255 times.  A zstd frame that tells its size allocates just that; one that does not (which is
what clients write: they compress as a stream) gets room for a batch of common growth, and if that is not enough, the
careful way is taken, as for everything else.  What makes the difference is one context for all batches: a new one
costs more than a batch of 16 KiB.

Clients write small batches as a frame of one block.  Whether all of them are such is seen at once, by array operations
(`at_once`); then nothing of ours is between the library and the next batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import repeat
from threading import local
from typing import TYPE_CHECKING

import numpy as np

from broker_lite.pipeline.varints import PADDING, Bytes, Ints, padded
from broker_lite.records.compression import Codec, inflate

if TYPE_CHECKING:
    from zstandard import ZstdDecompressor

Inflater = Callable[[memoryview], bytes]

GROUP_BYTES = 8 << 20
"""Large enough that the steps of records.py are worth their while, small enough to stay in a cache."""
_SMALL = 8 << 20
_LZ4_GROWTH = 255
_LZ4_OF_CLIENTS = np.frombuffer(bytes.fromhex("04224d18604082"), dtype=np.uint8)
"""A frame of independent blocks of at most 64 KiB and without checksums, which is what Java and librdkafka write."""
_LZ4_ROOM = 64 << 10
_LZ4_HEAD, _LZ4_TAIL = len(_LZ4_OF_CLIENTS) + 4, 4
"""Behind the frame's head stands the size of its first block, and zeros behind the last one."""
_ZSTD_GROWTH = 16
_ZSTD_ROOM = 128 << 10
"""Just as much as a block may hold."""
_TOLD_NOTHING = -1
_RLE = 1
_HAS_CHECKSUM = 4
"""In the flags of a frame; the checksum has just as many bytes."""
_ZSTD_HEAD = 9
"""Of a frame that tells nothing of itself but its window: four bytes of magic, flags, the window, and its first block's
three, which say whether it is the last, what it is and how long."""


@cache
def _zstd() -> ZstdDecompressor:
    from zstandard import ZstdDecompressor

    return ZstdDecompressor(max_window_size=_SMALL)


def inflater(codec: int, max_bytes: int) -> Inflater:
    """What inflates the batches of one codec to at most `max_bytes`. It raises what `records.compression.inflate` does.

    Whatever can be looked up once is: a batch of 16 KiB takes the library 8 µs (lz4) or 20 µs (zstd), and looking up
    modules, contexts and limits for each took another 2 µs and 4 µs.
    """
    if codec == Codec.LZ4:
        return _of_lz4(max_bytes)
    if codec == Codec.ZSTD:
        return _of_zstd(max_bytes)
    return lambda data: inflate(codec, data, max_bytes)


def _of_lz4(max_bytes: int) -> Inflater:
    import lz4.frame

    whole: Inflater = lz4.frame.decompress
    longest = min(max_bytes, _SMALL) // _LZ4_GROWTH

    def of(data: memoryview) -> bytes:
        if len(data) <= longest:
            try:
                return whole(data)
            except (RuntimeError, EOFError, ValueError):
                pass  # the careful way knows the words for what is wrong
        return inflate(Codec.LZ4, data, max_bytes)

    return of


def _of_zstd(max_bytes: int) -> Inflater:
    import zstandard

    whole, wrong = _zstd().decompress, zstandard.ZstdError
    size_told, head_size = zstandard.frame_content_size, zstandard.frame_header_size
    most = min(max_bytes, _SMALL)
    common = min(_ZSTD_ROOM, most)
    short = common // _ZSTD_GROWTH

    def of(data: memoryview) -> bytes:
        length = len(data)
        try:
            room = size_told(data)
            # The library looks behind the frame only where the frame told its size.
            if room == _TOLD_NOTHING and _frame_end(data, head_size(data)) == length:
                room = common if length <= short else min(most, _ZSTD_GROWTH * length)
            if 0 < room <= most:
                return whole(data, max_output_size=room, allow_extra_data=False)
        except wrong:
            pass
        return inflate(Codec.ZSTD, data, max_bytes)

    return of


def _frame_end(data: memoryview, at: int) -> int:
    """Where the first zstd frame ends, whose blocks begin at `at`: three bytes tell of each what it is and how long."""
    last = len(data) - 3
    while at <= last:
        head = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        at += 3 + (1 if (head >> 1) & 3 == _RLE else head >> 3)
        if head & 1:
            return at + (4 if data[4] & _HAS_CHECKSUM else 0)
    return -1


class Unusual(Exception):
    """Not what clients write, or damaged: the careful way knows which."""


def at_once(codec: int, buf: memoryview, begin: Ints, end: Ints, max_bytes: int) -> Iterator[bytes]:
    """The payloads that lie from `begin` to `end` in `buf`, inflated, or Unusual, at the latest when its turn comes."""
    data = np.frombuffer(buf, dtype=np.uint8)
    block: Callable[[memoryview, int], bytes]
    wrong: type[Exception]
    if codec == Codec.ZSTD and max_bytes >= _ZSTD_ROOM and _are_zstd_blocks(data, begin, end):
        import zstandard

        block, wrong, room = _zstd().decompress, zstandard.ZstdError, _ZSTD_ROOM
    elif codec == Codec.LZ4 and max_bytes >= _LZ4_ROOM and _are_lz4_blocks(data, begin, end):
        import lz4.block

        block, wrong, room = lz4.block.decompress, lz4.block.LZ4BlockError, _LZ4_ROOM
        begin, end = begin + _LZ4_HEAD, end - _LZ4_TAIL
    else:
        raise Unusual
    pieces = map(buf.__getitem__, map(slice, begin.tolist(), end.tolist()))
    try:
        yield from map(block, pieces, repeat(room))
    except wrong:
        raise Unusual from None


def _are_zstd_blocks(data: Bytes, begin: Ints, end: Ints) -> bool:
    """Whether each frame tells nothing of itself, but has a checksum perhaps, and is one block, compressed or not."""
    if (end - begin).min() < _ZSTD_HEAD:
        return False
    flags = data[begin + 4]
    block = data[begin + 6] | data[begin + 7].astype(np.int64) << 8 | data[begin + 8].astype(np.int64) << 16
    silent = flags | _HAS_CHECKSUM == _HAS_CHECKSUM
    last = (block & 1 == 1) & (block >> 1 & _RLE == 0)
    return bool((silent & last & (begin + _ZSTD_HEAD + (block >> 3) + flags == end)).all())


def _are_lz4_blocks(data: Bytes, begin: Ints, end: Ints) -> bool:
    """Whether each frame has the head that clients write, one compressed block, and the mark of the end behind it."""
    if (end - begin).min() < _LZ4_HEAD + _LZ4_TAIL:
        return False
    head = data[begin[:, None] + np.arange(_LZ4_HEAD)]
    size = head[:, -4:].copy().view("<u4")[:, 0]
    whole = begin + _LZ4_HEAD + size + _LZ4_TAIL == end
    ended = (data[end[:, None] - np.arange(1, _LZ4_TAIL + 1)] == 0).all()
    return bool(whole.all() and ended and (head[:, :-4] == _LZ4_OF_CLIENTS).all())


class _Room(local):
    """Where payloads are laid side by side, one for each thread: fresh memory for each group costs as much as inflating
    does, because the system hands it out page by page.  What is read from it is copied before the next group."""

    def __init__(self) -> None:
        self.data: Bytes = np.empty(0, dtype=np.uint8)


_room = _Room()


def side_by_side(payloads: Iterable[bytes | memoryview]) -> Iterator[tuple[int, Bytes, Ints]]:
    """(how many payloads, the array in which they lie, where each ends), at most GROUP_BYTES at a time.

    The first begins at 0.  The array is good until the next group is asked for.
    """
    ends: list[int] = []
    held = 0
    room = _room.data
    view = room.data
    for payload in payloads:
        size = len(payload)
        if ends and held + size > GROUP_BYTES:
            yield _group(room, held, ends)
            ends, held = [], 0
        if size > GROUP_BYTES:
            yield 1, padded(payload), np.array([size], dtype=np.int64)
            continue
        if not ends:  # whoever else reads in this thread had the room in between
            room = _enough(2 * GROUP_BYTES + PADDING)
            view = room.data
        end = held + size
        view[held:end] = payload
        held = end
        ends.append(end)
    if ends:
        yield _group(room, held, ends)


def _enough(size: int) -> Bytes:
    if len(_room.data) < size:
        _room.data = np.empty(size, dtype=np.uint8)
    return _room.data


def _group(room: Bytes, held: int, ends: list[int]) -> tuple[int, Bytes, Ints]:
    room[held : held + PADDING] = 0
    return len(ends), room[: 2 * held + PADDING], np.array(ends, dtype=np.int64)
