"""Message sets, magic 0 and 1: what Kafka stored and sent before there were batches.

    [offset int64, size int32, message]*          no count in front, in requests and on disk alike
    message: crc int32, magic int8, attributes int8, (magic 1: timestamp int64), key, value
             key and value with an int32 length in front, -1 is null; crc is CRC-32 from the magic to the end

A compressed set is one message, the *wrapper*: its value is a compressed message set, its key is null, its offset is
that of the last message inside.  In magic 0 the offsets inside are real ones; in magic 1 they count from the first
message, so the wrapper gives the last one its place and the others follow.  One wrapper deep and no deeper.

Messages are read one at a time, so a wrapper that inflates to two million of them costs the bytes and no objects.
What a length says is believed only as far as there are bytes for it.  A message whose end is missing ends the set
without a word: old brokers cut sets wherever a reader's limit fell.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from zlib import crc32

from broker_lite.errors import CorruptMessage, InvalidRecord
from broker_lite.records.batch import CODEC_MASK, LOG_APPEND_TIME, LOG_OVERHEAD, MAGIC, NO_TIMESTAMP, Batch
from broker_lite.records.build import assemble
from broker_lite.records.compression import Codec, deflate, inflate
from broker_lite.records.lz4_header import with_right_checksum, with_wrong_checksum
from broker_lite.records.patience import go_on
from broker_lite.records.record import MAX_INFLATED, write_record

MAX_DELTA = 2**31 - 1
"""So far apart the offsets of one batch may lie."""

MAGIC_AT = 16
_CRC_FROM = 16
_HEAD = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_OFTEN = 1 << 17
"""Bytes of messages from one look at the clock to the next."""
_SMALLEST = {0: 14, 1: 22}
"""What the size field says of a message without key and value."""
_BODY_AT = {0: _HEAD.size, 1: _HEAD.size + _TIMESTAMP.size}


class Message(NamedTuple):
    """One entry of a set, as it is written. `key` and `value` are views."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None
    buf: memoryview
    """All of it, offset and size included."""

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Magic 0 has neither a timestamp nor a type of it."""
        return self.magic > 0 and self.attributes & LOG_APPEND_TIME != 0


class OldRecord(NamedTuple):
    """A record of a set, taken out of its wrapper if it had one."""

    offset: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None


def is_message_set(records: bytes | bytearray | memoryview | None) -> bool:
    """Whether what lies there is of the old kind; nothing at all is an empty set."""
    return records is None or len(records) <= MAGIC_AT or records[MAGIC_AT] < MAGIC


def messages_of(data: bytes | bytearray | memoryview) -> Iterator[Message]:
    """The entries of a set, wrappers unopened. CorruptMessage where none can start or one is not what was written."""
    view = memoryview(data)
    pos, end, asked = 0, len(view), 0
    while end - pos > MAGIC_AT:
        if pos - asked > _OFTEN:
            go_on()
            asked = pos
        size = int.from_bytes(view[pos + 8 : pos + 12], "big", signed=True)
        magic = view[pos + MAGIC_AT]
        if magic not in _SMALLEST or size < _SMALLEST[magic]:
            raise CorruptMessage(f"the message at byte {pos} has magic {magic} and {size} bytes")
        after = pos + LOG_OVERHEAD + size
        if after > end:
            return
        yield _message(view[pos:after])
        pos = after


def _message(buf: memoryview) -> Message:
    """`buf` is exactly one entry, and long enough for its magic."""
    offset, _, crc, magic, attributes = _HEAD.unpack_from(buf)
    if crc32(buf[_CRC_FROM:]) != crc:
        raise CorruptMessage(f"the message with offset {offset} does not match its checksum {crc:#010x}")
    timestamp = _TIMESTAMP.unpack_from(buf, _HEAD.size)[0] if magic else NO_TIMESTAMP
    key, pos = _field(buf, _BODY_AT[magic])
    value, pos = _field(buf, pos)
    if pos != len(buf):
        raise InvalidRecord(f"the message with offset {offset} has {len(buf)} bytes but its fields take {pos}")
    return Message(offset, magic, attributes, timestamp, key, value, buf)


def _field(buf: memoryview, pos: int) -> tuple[memoryview | None, int]:
    if len(buf) - pos < _LENGTH.size:
        raise InvalidRecord(f"a message of {len(buf)} bytes has no room for its key and value")
    (length,) = _LENGTH.unpack_from(buf, pos)
    pos += _LENGTH.size
    if length < 0:
        return None, pos
    if length > len(buf) - pos:
        raise InvalidRecord(f"a message has a field of {length} bytes where {len(buf) - pos} are left")
    return buf[pos : pos + length], pos + length


# --- out of the wrapper -------------------------------------------------------------------------------------------


def inner_messages(wrapper: Message, *, max_bytes: int = MAX_INFLATED) -> Iterator[Message]:
    """What a compressed message holds, at least one. Offsets as written: in magic 1 relative to each other."""
    codec, value = wrapper.codec, wrapper.value
    if codec not in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
        raise InvalidRecord(f"a message of magic {wrapper.magic} cannot be compressed with codec {codec}")
    if value is None:
        raise InvalidRecord("a compressed message has no value")
    if codec == Codec.LZ4 and wrapper.magic == 0:
        inside = inflate(codec, with_right_checksum(value), max_bytes)
    else:
        inside = inflate(codec, value, max_bytes)
    empty = True
    for message in messages_of(inside):
        if message.magic != wrapper.magic:
            raise InvalidRecord(f"a message of magic {message.magic} is wrapped in one of magic {wrapper.magic}")
        if message.codec:
            raise InvalidRecord("a compressed message holds another compressed one")
        empty = False
        yield message
    if empty:
        raise InvalidRecord("a compressed message holds no messages")


def old_records(message: Message, *, max_bytes: int = MAX_INFLATED) -> Iterator[OldRecord]:
    """The records of one entry of a stored set, with their real offsets and times."""
    if message.codec == Codec.NONE:
        yield OldRecord(message.offset, message.timestamp, message.key, message.value)
        return
    shift = 0
    if message.magic > 0:
        for inner in inner_messages(message, max_bytes=max_bytes):
            shift = message.offset - inner.offset
    for inner in inner_messages(message, max_bytes=max_bytes):
        timestamp = message.timestamp if message.is_log_append_time else inner.timestamp
        yield OldRecord(inner.offset + shift, timestamp, inner.key, inner.value)


def as_batch(entry: bytes | bytearray | memoryview, *, max_bytes: int = MAX_INFLATED) -> Batch:
    """One entry of a stored set as a batch of the same records, offsets and codec: for those who know only batches."""
    message = next(messages_of(entry), None)
    if message is None:
        raise CorruptMessage(f"a message of {len(entry)} bytes is not whole")
    payload = bytearray()
    base = base_timestamp = last = -1
    max_timestamp, count = NO_TIMESTAMP, 0
    for record in old_records(message, max_bytes=max_bytes):
        if not count:
            base, base_timestamp = record.offset, record.timestamp
        if record.offset < max(last, 0) or record.offset > message.offset:
            raise InvalidRecord(f"offset {record.offset} after {last} in the message with offset {message.offset}")
        if message.offset - base > MAX_DELTA:
            raise InvalidRecord(f"offsets from {base} to {message.offset} in one message")
        write_record(
            payload,
            timestamp_delta=record.timestamp - base_timestamp,
            offset_delta=record.offset - base,
            key=_bytes(record.key),
            value=_bytes(record.value),
        )
        last = record.offset
        max_timestamp = max(max_timestamp, record.timestamp)
        count += 1
    return Batch(
        memoryview(
            assemble(
                deflate(message.codec, payload),
                base_offset=base,
                leader_epoch=-1,
                attributes=message.codec | (LOG_APPEND_TIME if message.is_log_append_time else 0),
                last_offset_delta=message.offset - base,
                base_timestamp=base_timestamp,
                max_timestamp=max_timestamp,
                producer_id=-1,
                producer_epoch=-1,
                base_sequence=-1,
                count=count,
            )
        )
    )


def _bytes(view: memoryview | None) -> bytes | None:
    return None if view is None else bytes(view)


# --- writing ------------------------------------------------------------------------------------------------------


def write_message(
    offset: int,
    key: bytes | memoryview | None,
    value: bytes | memoryview | None,
    *,
    magic: int,
    timestamp: int = NO_TIMESTAMP,
    attributes: int = 0,
) -> bytes:
    """One entry of a set. Magic 0 forgets the timestamp and its type."""
    if magic == 0:
        attributes &= CODEC_MASK
    out = bytearray(_BODY_AT[magic])
    if magic:
        _TIMESTAMP.pack_into(out, _HEAD.size, timestamp)
    for part in (key, value):
        if part is None:
            out += b"\xff\xff\xff\xff"
        else:
            out += _LENGTH.pack(len(part))
            out += part
    _HEAD.pack_into(out, 0, offset, len(out) - LOG_OVERHEAD, 0, magic, attributes)
    out[12:16] = crc32(memoryview(out)[_CRC_FROM:]).to_bytes(4, "big")
    return bytes(out)


def write_wrapper(
    records: Iterable[tuple[int, int, bytes | None, bytes | None]],
    *,
    magic: int,
    codec: int,
    log_append_time: int | None = None,
) -> bytes:
    """Records (offset, timestamp, key, value), at least one, as one compressed message."""
    inside = bytearray()
    first, last, newest = -1, -1, NO_TIMESTAMP
    for offset, timestamp, key, value in records:
        first = offset if first < 0 else first
        last, newest = offset, max(newest, timestamp)
        inside += write_message(offset if magic == 0 else offset - first, key, value, magic=magic, timestamp=timestamp)
    assert last >= 0, "a wrapper of nothing"
    value = deflate(codec, inside)
    if codec == Codec.LZ4 and magic == 0:
        value = with_wrong_checksum(value)
    return write_message(
        last,
        None,
        value,
        magic=magic,
        timestamp=newest if log_append_time is None else log_append_time,
        attributes=codec | (0 if log_append_time is None else LOG_APPEND_TIME),
    )
