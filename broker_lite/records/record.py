"""Records inside a batch: read and write one.

    length       varint    bytes after this field
    attributes   int8      unused
    timestamp    varlong   minus the batch's base timestamp
    offset       varint    minus the batch's base offset
    key, value   varint length (-1 is null), then the bytes
    headers      varint count; each a key (never null) and a value, written likewise

Varints are zig-zag, seven bits a byte, the low ones first.  Nearly all of them are one byte long, so the
reader takes that way first and calls for help only where the high bit is set: 2.0 µs a record of six fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from broker_lite.errors import InvalidRecord
from broker_lite.records.batch import HEADER_SIZE, Batch
from broker_lite.records.compression import Codec, inflate
from broker_lite.records.patience import OFTEN, go_on
from broker_lite.shapes import dataclass

MAX_INFLATED = 64 << 20
"""How large a batch may become where nobody says otherwise."""

Header = tuple[str, bytes | None]


@dataclass(slots=True)
class Record:
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class RawRecord(NamedTuple):
    """A record as it is written: still relative to its batch."""

    attributes: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


def payload_of(batch: Batch, *, max_bytes: int = MAX_INFLATED) -> bytes:
    """Everything after the header, inflated."""
    return inflate(batch.codec, batch.buf[HEADER_SIZE:], max_bytes)


def records_of(batch: Batch, *, max_bytes: int = MAX_INFLATED) -> Iterator[Record]:
    """The batch's records with their real offsets and times. The bytes are copies, free of the batch's buffer."""
    base, base_timestamp = batch.base_offset, batch.base_timestamp
    append_time = batch.max_timestamp if batch.is_log_append_time else None
    for raw in parse_records(payload_of(batch, max_bytes=max_bytes), batch.count):
        timestamp = base_timestamp + raw.timestamp_delta if append_time is None else append_time
        yield Record(base + raw.offset_delta, timestamp, raw.key, raw.value, raw.headers)


def parse_records(data: bytes, count: int) -> Iterator[RawRecord]:
    """Exactly `count` records that end exactly at the end of `data`, or InvalidRecord."""
    pos = 0
    total = len(data)
    for index in range(count):
        length, pos = read_varint(data, pos)
        end = pos + length
        if length < 0 or end > total:
            raise InvalidRecord(f"record {index} says it has {length} bytes where {total - pos} are left")
        raw, pos = _read_record(data, pos, end, index)
        if pos != end:
            raise InvalidRecord(f"record {index} says it has {length} bytes but its fields take {length + pos - end}")
        if index % OFTEN == OFTEN - 1:
            go_on()
        yield raw
    if pos != total:
        raise InvalidRecord(f"incorrect declared batch size: {total - pos} bytes are left after {count} records")


def _read_record(data: bytes, pos: int, end: int, index: int) -> tuple[RawRecord, int]:
    if pos >= end:
        raise InvalidRecord(f"record {index} is empty")
    attributes = data[pos]
    timestamp_delta, pos = read_varint(data, pos + 1, 64)
    offset_delta, pos = read_varint(data, pos)
    key, pos = _read_bytes(data, pos, end, index)
    value, pos = _read_bytes(data, pos, end, index)
    headers, pos = _read_headers(data, pos, end, index)
    return RawRecord(attributes, timestamp_delta, offset_delta, key, value, headers), pos


def _read_headers(data: bytes, pos: int, end: int, index: int) -> tuple[tuple[Header, ...], int]:
    count, pos = read_varint(data, pos)
    if count == 0:
        return (), pos
    if count < 0:
        raise InvalidRecord(f"record {index} has {count} headers")
    if count > end - pos:
        raise InvalidRecord(f"record {index} says it has {count} headers where {max(end - pos, 0)} bytes are left")
    headers: list[Header] = []
    for _ in range(count):
        key, pos = _read_bytes(data, pos, end, index)
        if key is None:
            raise InvalidRecord(f"record {index} has a header without a key")
        value, pos = _read_bytes(data, pos, end, index)
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), pos


def _read_bytes(data: bytes, pos: int, end: int, index: int) -> tuple[bytes | None, int]:
    length, pos = read_varint(data, pos)
    if length < 0:
        return None, pos
    if length > end - pos:
        raise InvalidRecord(f"record {index} has a field of {length} bytes where {max(end - pos, 0)} are left")
    return data[pos : pos + length], pos + length


def read_varint(data: bytes | memoryview, pos: int, bits: int = 32) -> tuple[int, int]:
    """A zig-zag varint (or varlong with bits=64) at `pos`, and the position after it."""
    try:
        byte = data[pos]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), pos + 1
        value = byte & 0x7F
        shift = 7
        while True:
            pos += 1
            byte = data[pos]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= bits:
                raise InvalidRecord(f"a varint of more than {bits} bits")
    except IndexError:
        raise InvalidRecord("a varint goes on past the end") from None
    if value >> bits:
        raise InvalidRecord(f"a varint of more than {bits} bits")
    return (value >> 1) ^ -(value & 1), pos + 1


def write_varint(out: bytearray, value: int) -> None:
    """Zig-zag; the same for varint and varlong, because a value in range needs no more bytes."""
    value = value << 1 if value >= 0 else ~(value << 1)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_record(
    out: bytearray,
    *,
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[Header, ...] = (),
) -> None:
    """Append one record, its length in front."""
    body = bytearray(1)
    write_varint(body, timestamp_delta)
    write_varint(body, offset_delta)
    _write_bytes(body, key)
    _write_bytes(body, value)
    write_varint(body, len(headers))
    for name, content in headers:
        _write_bytes(body, name.encode())
        _write_bytes(body, content)
    write_varint(out, len(body))
    out += body


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)  # zig-zag of -1
    else:
        write_varint(out, len(value))
        out += value


__all__ = [
    "MAX_INFLATED",
    "Codec",
    "Header",
    "RawRecord",
    "Record",
    "parse_records",
    "payload_of",
    "read_varint",
    "records_of",
    "write_record",
    "write_varint",
]
