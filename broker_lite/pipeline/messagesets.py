"""Messages of magic 0 and 1, which logs older than Kafka 0.11 hold.

    offset 8, size 4, crc 4 (CRC-32 of the rest), magic 1, attributes 1, [timestamp 8, magic 1 only], key, value

Key and value have a length of four bytes in front, -1 for null.  A compressed set is one message whose value is a set.
Its inner offsets are absolute in magic 0; in magic 1 they count from 0 and the wrapper has the last one's.
In magic 0 the header checksum of an LZ4 frame was computed over the frame's magic number too (KAFKA-3160), so it is
written anew before the frame is read.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from broker_lite.errors import BrokerError
from broker_lite.records.compression import Codec, inflate
from broker_lite.records.record import MAX_INFLATED

_FIXED = struct.Struct(">qiIbb")
_LENGTH = struct.Struct(">i")
_SMALLEST = 14
NO_TIMESTAMP_TYPE, CREATE_TIME, LOG_APPEND_TIME = -1, 0, 1


class Entry(NamedTuple):
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None


class Message:
    """One message, its first twelve bytes included. ValueError where a field goes past its end."""

    __slots__ = ("attributes", "body", "crc", "data", "magic", "offset", "timestamp")

    def __init__(self, data: memoryview) -> None:
        if len(data) < _FIXED.size:
            raise ValueError(f"a message of {len(data)} bytes, at least {_FIXED.size} are due")
        self.offset, _, self.crc, self.magic, self.attributes = _FIXED.unpack_from(data)
        self.data = data
        self.timestamp, self.body = -1, _FIXED.size
        if self.magic == 1 and len(data) >= _FIXED.size + 8:
            self.timestamp, self.body = int.from_bytes(data[18:26], "big", signed=True), 26

    @property
    def codec(self) -> int:
        return int(self.attributes) & 7

    @property
    def timestamp_type(self) -> int:
        return (self.attributes >> 3) & 1 if self.magic == 1 else NO_TIMESTAMP_TYPE

    def sound(self) -> bool:
        return bool(zlib.crc32(self.data[16:]) == self.crc)

    def fields(self) -> tuple[memoryview | None, memoryview | None]:
        key, at = self._field(self.body)
        value, at = self._field(at)
        if at != len(self.data):
            raise ValueError(f"a message of {len(self.data)} bytes whose fields take {at}")
        return key, value

    def _field(self, at: int) -> tuple[memoryview | None, int]:
        if at + 4 > len(self.data):
            raise ValueError("a message that ends in a length")
        (length,) = _LENGTH.unpack_from(self.data, at)
        at += 4
        if length < 0:
            return None, at
        if at + length > len(self.data):
            raise ValueError(f"a field of {length} bytes where {len(self.data) - at} are left")
        return self.data[at : at + length], at + length


def records_in(message: Message, *, max_bytes: int = MAX_INFLATED) -> list[Entry]:
    """The message itself, or what its compressed set holds. ValueError where that cannot be read."""
    _, value = message.fields()
    if not message.codec:
        return [_entry(message, message.offset, message.timestamp, message.timestamp_type)]
    if value is None:
        raise ValueError("a compressed message without a value")
    try:
        data = memoryview(inflate(message.codec, _mended(message, value), max_bytes))
    except BrokerError as error:
        raise ValueError(error.message) from None
    inner = _messages(data, message.magic)
    if not inner:
        raise ValueError("a compressed message set without messages")
    shift = message.offset - inner[-1].offset if message.magic == 1 else 0
    stamp = message.timestamp if message.timestamp_type == LOG_APPEND_TIME else None
    return [
        _entry(one, one.offset + shift, one.timestamp if stamp is None else stamp, message.timestamp_type)
        for one in inner
    ]


def _messages(data: memoryview, magic: int) -> list[Message]:
    found: list[Message] = []
    at = 0
    while at < len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        if size < 12 + _SMALLEST or at + size > len(data):
            raise ValueError(f"an inner message of {size} bytes where {len(data) - at} are left")
        message = Message(data[at : at + size])
        if message.magic != magic or message.codec:
            raise ValueError(f"an inner message of magic {message.magic} and codec {message.codec}")
        if not message.sound():
            raise ValueError(f"the checksum of inner message {len(found)} does not fit")
        found.append(message)
        at += size
    return found


def _entry(message: Message, offset: int, timestamp: int, kind: int) -> Entry:
    key, value = message.fields()
    return Entry(
        offset,
        timestamp,
        kind,
        None if key is None else bytes(key),
        None if value is None else bytes(value),
    )


def _mended(message: Message, value: memoryview) -> bytes | memoryview:
    if message.magic or message.codec != Codec.LZ4 or len(value) < 7:
        return value
    end = 6 + (8 if value[4] & 0x08 else 0)
    if len(value) <= end:
        return value
    return bytes(value[:end]) + bytes([_xxh32(bytes(value[4:end])) >> 8 & 0xFF]) + bytes(value[end + 1 :])


def _xxh32(data: bytes) -> int:
    """XXH32 with seed 0, for fewer than 16 bytes: all that a frame's descriptor has."""
    prime1, prime2, prime3, prime4, prime5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    assert len(data) < 16
    acc, at = (prime5 + len(data)) & 0xFFFFFFFF, 0
    while at + 4 <= len(data):
        acc = _rotated((acc + int.from_bytes(data[at : at + 4], "little") * prime3) & 0xFFFFFFFF, 17) * prime4
        acc &= 0xFFFFFFFF
        at += 4
    for byte in data[at:]:
        acc = _rotated((acc + byte * prime5) & 0xFFFFFFFF, 11) * prime1 & 0xFFFFFFFF
    acc = (acc ^ acc >> 15) * prime2 & 0xFFFFFFFF
    acc = (acc ^ acc >> 13) * prime3 & 0xFFFFFFFF
    return acc ^ acc >> 16


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> (32 - by)) & 0xFFFFFFFF
