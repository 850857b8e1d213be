"""Walking through a segment's bytes: by headers, by whole batches, and by whole batches that are what they were.

A segment is batches, one after the other, and nothing between them.  So there is only one way to know where a batch
starts: an index that says so, or the end of the one before.  Three walks, from the cheapest:

- `steps` reads headers only and believes the lengths in them (plausible ones);
- `whole` reads everything, for those who want the records;
- `checked` reads everything and checks each checksum: what recovery believes.

Each ends with `Damaged` at the first place where no batch can start.  Messages of magic 0 and 1, which only very old
logs hold, share the first seventeen bytes with a batch and are stepped over like one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, Protocol
from zlib import crc32

from broker_lite.crc import crc32c
from broker_lite.errors import CorruptMessage
from broker_lite.log.layout import MAX_RELATIVE
from broker_lite.records.batch import CRC_FROM, HEADER_SIZE, LOG_OVERHEAD, MAGIC

HEADER_CHUNK = 8 << 10
BODY_CHUNK = 1 << 20
_HEAD = struct.Struct(">qiibIhiqq")
_OLD_TIMESTAMP = struct.Struct(">18xq")
_SMALLEST_OLD = {0: 14, 1: 22}
"""crc, magic, attributes, two lengths; magic 1 has a timestamp besides."""


class Readable(Protocol):
    def pread(self, position: int, count: int) -> bytes: ...


class Damaged(CorruptMessage):
    """No batch can start here, or the one that does is not what was written."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"at byte {position}: {reason}")
        self.position = position


class Step(NamedTuple):
    position: int
    size: int
    base: int
    last: int
    epoch: int
    max_timestamp: int
    magic: int
    crc: int


def step_at(chunk: bytes, at: int, position: int, end: int) -> Step:
    """The batch whose header lies at `at` in `chunk`, which is byte `position` of a file good up to `end`."""
    if len(chunk) - at < _HEAD.size:
        chunk = chunk[at:] + bytes(_HEAD.size)
        at = 0
    base, length, epoch, magic, crc, _, delta, _, max_timestamp = _HEAD.unpack_from(chunk, at)
    size = length + LOG_OVERHEAD
    if magic == MAGIC:
        if size < HEADER_SIZE or delta < 0:
            raise Damaged(position, f"a batch of {size} bytes whose last offset delta is {delta}")
        last = base + delta
    elif magic in _SMALLEST_OLD and length >= _SMALLEST_OLD[magic]:
        crc, epoch, last = epoch & 0xFFFFFFFF, -1, base
        max_timestamp = _OLD_TIMESTAMP.unpack_from(chunk, at)[0] if magic == 1 else -1
    else:
        raise Damaged(position, f"magic {magic} and length {length} are no batch")
    if position + size > end:
        raise Damaged(position, f"a batch at offset {base} of {size} bytes, {end - position} are there")
    return Step(position, size, base, last, epoch, max_timestamp, magic, crc)


def steps(file: Readable, position: int, end: int) -> Iterator[Step]:
    chunk = b""
    chunk_at = position
    while position < end:
        at = position - chunk_at
        if len(chunk) - at < _HEAD.size:
            chunk = file.pread(position, min(HEADER_CHUNK, end - position))
            chunk_at = position
            at = 0
        step = step_at(chunk, at, position, end)
        if step.base < 0:
            raise Damaged(position, f"offset {step.base}")
        yield step
        position += step.size


def whole(file: Readable, position: int, end: int) -> Iterator[tuple[Step, memoryview]]:
    """Each batch with its bytes, read a MiB at a time."""
    chunk = b""
    view = memoryview(chunk)
    chunk_at = position
    while position < end:
        at = position - chunk_at
        if len(chunk) - at < _HEAD.size and chunk_at + len(chunk) < end:
            chunk = file.pread(position, min(BODY_CHUNK, end - position))
            view, chunk_at, at = memoryview(chunk), position, 0
        step = step_at(chunk, at, position, end)
        if len(chunk) - at < step.size:
            chunk = file.pread(position, min(max(BODY_CHUNK, step.size), end - position))
            view, chunk_at, at = memoryview(chunk), position, 0
            if len(chunk) < step.size:
                raise Damaged(position, f"{len(chunk)} bytes could be read, the batch has {step.size}")
        yield step, view[at : at + step.size]
        position += step.size


def is_intact(step: Step, body: memoryview) -> bool:
    if step.magic == MAGIC:
        return bool(crc32c(body[CRC_FROM:]) == step.crc)
    return crc32(body[16:]) == step.crc


def checked(
    file: Readable, position: int, end: int, *, base: int, consecutive_from: int | None
) -> Iterator[tuple[Step, memoryview]]:
    """Like `whole`, with checksums right and offsets that rise from `base` on, as far as an index can say.

    From `consecutive_from` on no offset may be missing: that part was never compacted.  Offsets lie outside the
    checksum, so this is how a wrong one is found.  Not among old messages: a compressed one tells only its last offset.
    """
    due = base
    known = position == 0
    for step, body in whole(file, position, end):
        if step.base < due or step.last - base > MAX_RELATIVE:
            raise Damaged(step.position, f"offset {step.base} where {due} is due")
        if known and consecutive_from is not None and step.base > due >= consecutive_from and step.magic == MAGIC:
            raise Damaged(step.position, f"offset {step.base} where {due} is due")
        if not is_intact(step, body):
            raise Damaged(step.position, f"the batch at offset {step.base} has another checksum than {step.crc}")
        yield step, body
        due = step.last + 1
        known = True


def intact_after(file: Readable, position: int, end: int, *, old: bool) -> int | None:
    """Where, from a damaged place on, an intact batch starts; None if there is none: the damage is a torn tail.

    One with a wrong offset counts: it was written whole.  Every byte is a candidate, because the length that would
    lead to the next batch may be what is damaged.  `old`: messages of magic 0 and 1 may be there, too.
    """
    overlap = HEADER_SIZE
    while position < end:
        chunk = file.pread(position, min(BODY_CHUNK + overlap, end - position))
        if chunk.strip(b"\0"):
            for magic in (MAGIC, 1, 0) if old else (MAGIC,):
                for start in _candidates(chunk, magic):
                    if _intact_at(file, chunk, start, position + start, end):
                        return position + start
        if len(chunk) <= overlap:
            return None
        position += len(chunk) - overlap
    return None


def _candidates(chunk: bytes, magic: int) -> Iterator[int]:
    """Where a header with this magic may start."""
    at = chunk.find(magic, 16)
    while at >= 0:
        yield at - 16
        at = chunk.find(magic, at + 1)


def _intact_at(file: Readable, chunk: bytes, start: int, position: int, end: int) -> bool:
    try:
        step = step_at(chunk, start, position, end)
    except Damaged:
        return False
    body = file.pread(position, step.size)
    return len(body) == step.size and is_intact(step, memoryview(body))
