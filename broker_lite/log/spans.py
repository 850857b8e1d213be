"""Where each record of a batch begins and ends, and its key: all that compaction looks at.

What is kept is copied as it lies there, so headers, attributes and values are never understood, let alone changed.
One step costs about a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from broker_lite.errors import BrokerError, InvalidRecord
from broker_lite.records.batch import Batch
from broker_lite.records.record import payload_of, read_varint, write_varint


class Span(NamedTuple):
    start: int
    """Of its length field."""
    timestamp_delta: int
    after_timestamp: int
    end: int
    offset_delta: int
    key: bytes | None
    has_value: bool


Pace = Callable[[], None]
"""Lets others have the interpreter if it is time, or raises to end the round."""
_FEW = 64
"""Records between two calls of it, some 80 microseconds: a batch may hold thousands, and others would wait."""
_tuple = tuple.__new__


def opened(batch: Batch, pace: Pace) -> tuple[bytes, list[Span]] | None:
    """The inflated payload and its records; None if they cannot be read: then the batch stays as it is."""
    try:
        payload = payload_of(batch)
        return payload, spans(payload, batch.count, pace)
    except BrokerError:
        return None


def spans(data: bytes, count: int, pace: Pace) -> list[Span]:
    """The records in an inflated payload. InvalidRecord where they do not add up.

    Varints of one byte, and lengths of two, are read here and not by a call: that is nearly all of them, and
    compaction does little else.
    """
    found: list[Span] = []
    pos, total = 0, len(data)
    try:
        for index in range(count):
            if index % _FEW == _FEW - 1:
                pace()
            start = pos
            low = data[pos]
            if low < 0x80:
                length, pos = (low >> 1) ^ -(low & 1), pos + 1
            elif (high := data[pos + 1]) < 0x80:
                length, pos = (high << 6 | (low & 0x7F) >> 1) ^ -(low & 1), pos + 2
            else:
                length, pos = read_varint(data, pos)
            end = pos + length
            if length < 1 or end > total:
                raise InvalidRecord(f"record {index} says it has {length} bytes where {total - pos} are left")
            low = data[pos + 1]
            timestamp, after = ((low >> 1) ^ -(low & 1), pos + 2) if low < 0x80 else read_varint(data, pos + 1, 64)
            low = data[after]
            offset, at = ((low >> 1) ^ -(low & 1), after + 1) if low < 0x80 else read_varint(data, after)
            low = data[at]
            size, at = ((low >> 1) ^ -(low & 1), at + 1) if low < 0x80 else read_varint(data, at)
            if size >= 0:
                key: bytes | None = data[at : at + size]
                at += size
            else:
                key = None
            if at >= end:
                raise InvalidRecord(f"record {index} ends before its value")
            # Of a zig-zag varint the lowest bit is the sign, and a value is missing if its length is negative.
            found.append(_tuple(Span, (start, timestamp, after, end, offset, key, not data[at] & 1)))
            pos = end
    except IndexError:
        raise InvalidRecord(f"record {index} goes on past the end") from None
    if pos != total:
        raise InvalidRecord(f"{total - pos} bytes are left after {count} records")
    return found


def handfuls(found: list[Span], pace: Pace) -> Iterator[list[Span]]:
    """The same a few at a time, for those who do something with each."""
    for first in range(0, len(found), _FEW):
        pace()
        yield found[first : first + _FEW]


def shifted(data: bytes, span: Span, by: int) -> bytes:
    """The record with another timestamp delta."""
    body = bytearray(1)
    write_varint(body, span.timestamp_delta + by)
    body += data[span.after_timestamp : span.end]
    out = bytearray()
    write_varint(out, len(body))
    return bytes(out + body)
