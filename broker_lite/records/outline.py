"""The outer walk of an uncompressed batch: as many records as declared, the last one ending where the batch ends.

Each record starts with its length, so the walk steps from length to length and looks at nothing else.  One step
costs 0.2 µs in Python, which for small records is more than everything else an append does.  But producers send
records of one size in runs, so when two lengths in a row are equal the walk looks ahead: it takes every n-th byte
of a window (one slice, in C) and counts how many equal the first.  If the bytes at each place where the next record
would start hold the same length, stepping would have gone exactly there.  The window starts small and grows only
while it is used up, so bytes made to disappoint it cost little more than the plain walk.

The walk of 80 records in 16 KiB takes 9 µs if they are equally long and 15 µs if not; of 5000 in 1 MiB 170 µs
and 1.5 ms.
"""

from __future__ import annotations

from broker_lite.errors import InvalidRecord
from broker_lite.records.batch import HEADER_SIZE, Batch

_WINDOW = 16
_MORE = 4
_LARGEST = 4096


def step_over_records(batch: Batch) -> None:
    """Raises InvalidRecord unless the batch's lengths agree with its count and its end."""
    buf = batch.buf
    end = len(buf)
    pos = HEADER_SIZE
    seen = signs = last = 0
    window = _WINDOW
    try:
        while pos < end:
            first = buf[pos]
            signs |= first
            if first < 0x80:
                step, width = (first >> 1) + 1, 1
            elif (second := buf[pos + 1]) < 0x80:
                step, width = (second << 6 | (first & 0x7F) >> 1) + 2, 2
            else:
                step, width = _long_step(buf, pos)
            seen += 1
            if step == last:
                alike = _alike(buf, pos, step, width, window)
                window = min(window * _MORE, _LARGEST) if alike == window else _WINDOW
                seen += alike - 1
                pos += step * alike
            else:
                pos += step
                last = step
    except IndexError:
        raise InvalidRecord(f"the length of record {seen} goes on past the end of the batch") from None
    # A zig-zag number is negative when its lowest bit is set, and that bit is in the first byte.
    if signs & 1:
        raise InvalidRecord("a record has a negative length")
    if pos != end or seen != batch.count:
        raise InvalidRecord(
            f"incorrect declared batch size: {batch.count} records declared, {seen} found, "
            f"the last one {'whole' if pos == end else 'cut'}"
        )


def _alike(buf: memoryview, pos: int, step: int, width: int, window: int) -> int:
    """How many records from `pos` on, at most `window`, have the length that stands at `pos`. At least one."""
    until = pos + step * window
    alike = window
    for at in range(width):
        column = buf[pos + at : until : step].tobytes()
        alike = min(alike, len(column) - len(column.lstrip(column[:1])))
    return alike


def _long_step(buf: memoryview, pos: int) -> tuple[int, int]:
    """A length of three to five bytes."""
    value = shift = width = 0
    while True:
        byte = buf[pos + width]
        value |= (byte & 0x7F) << shift
        width += 1
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise InvalidRecord("a record has a length of more than 32 bits")
    if value >> 32:
        raise InvalidRecord("a record has a length of more than 32 bits")
    return (value >> 1) + width, width
