"""Make a batch: for coordinators, the command line and tests. Clients bring their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Protocol

from broker_lite.records.batch import (
    CONTROL,
    CRC_FROM,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    checksum,
)
from broker_lite.records.compression import Codec, deflate
from broker_lite.records.record import Header, write_record
from broker_lite.shapes import dataclass
from broker_lite.wire.primitives import unsigned_varint

_CRC_AT = 17
_LENGTH = HEADER_SIZE - LOG_OVERHEAD
"""Of an empty batch, as its length field has it."""
_BEFORE_CRC = Struct(">qiibI")
_AFTER_CRC = Struct(">hiqqqhii")
assert (_BEFORE_CRC.size, _AFTER_CRC.size) == (CRC_FROM, HEADER_SIZE - CRC_FROM)


@dataclass(slots=True)
class NewRecord:
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp: int | None = None
    """When it happened; None: at the batch's timestamp."""


def build_batch(
    records: Iterable[NewRecord],
    *,
    timestamp: int,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    base_offset: int = 0,
    leader_epoch: int = -1,
    log_append_time: bool = False,
) -> bytes:
    """One batch with the records in order, offsets without a gap and a true checksum."""
    payload = bytearray()
    base_timestamp: int | None = None
    max_timestamp = -1
    count = 0
    for record in records:
        at = timestamp if record.timestamp is None else record.timestamp
        if base_timestamp is None:
            base_timestamp = at
        max_timestamp = max(max_timestamp, at)
        write_record(
            payload,
            timestamp_delta=at - base_timestamp,
            offset_delta=count,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
        count += 1
    attributes = int(codec)
    attributes |= TRANSACTIONAL if transactional else 0
    attributes |= CONTROL if control else 0
    attributes |= LOG_APPEND_TIME if log_append_time else 0
    return assemble(
        deflate(codec, payload, level),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=timestamp if base_timestamp is None else base_timestamp,
        max_timestamp=timestamp if log_append_time else max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=count,
    )


class Line(Protocol):
    """A key and what is written under it, None: it is taken back."""

    key: bytes
    value: bytes | None


def build_lines(lines: Sequence[Line], *, timestamp: int, producer_id: int = -1, producer_epoch: int = -1) -> bytes:
    """A coordinator's batch: all lines of one moment, in plain; those of a producer are part of its transaction."""
    payload = bytearray()
    for delta, line in enumerate(lines):
        key, value = line.key, line.value
        # Lengths and deltas are zig-zag varints; here none is negative but the length of nothing.
        record = b"\0\0" + unsigned_varint(delta << 1) + unsigned_varint(len(key) << 1) + key
        record += b"\1\0" if value is None else unsigned_varint(len(value) << 1) + value + b"\0"
        payload += unsigned_varint(len(record) << 1) + record
    return assemble(
        payload,
        base_offset=0,
        leader_epoch=-1,
        attributes=TRANSACTIONAL if producer_id >= 0 else 0,
        last_offset_delta=len(lines) - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=0 if producer_id >= 0 else -1,
        count=len(lines),
    )


def assemble(
    payload: bytes | bytearray | memoryview,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    count: int,
) -> bytes:
    """A header in front of what is already written (and compressed, if the attributes say so)."""
    body = _AFTER_CRC.pack(
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    body += payload
    return _BEFORE_CRC.pack(base_offset, _LENGTH + len(payload), leader_epoch, MAGIC, checksum(body)) + body


def sealed(batch: bytearray) -> bytearray:
    """Write the checksum that the rest of the batch asks for."""
    batch[_CRC_AT : _CRC_AT + 4] = checksum(memoryview(batch)[CRC_FROM:]).to_bytes(4, "big")
    return batch
