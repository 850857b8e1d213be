"""The header checksum of an LZ4 frame, right and as Kafka once had it wrong.

A frame starts with its magic number, a descriptor (flags, block size, perhaps the content's size) and one byte: the
second lowest byte of XXH32 over the descriptor.  Kafka computed it over the magic number too (KAFKA-3160), and by the
time anybody noticed, the mistake was the format: in messages of magic 0 the wrong byte is written and, since nobody
can know what an old client did, whatever stands there is read.  From magic 1 on it is right.
"""

from __future__ import annotations

_MAGIC = b"\x04\x22\x4d\x18"
_CONTENT_SIZE = 0x08
_DICTIONARY = 0x01
_MASK = 0xFFFFFFFF
_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393


def with_right_checksum(frame: bytes | bytearray | memoryview) -> bytes:
    """What any LZ4 library reads. Bytes that are no frame come back as they are."""
    end = _descriptor_end(frame)
    if end is None:
        return bytes(frame)
    return bytes(frame[:end]) + _checksum(frame[4:end]) + bytes(frame[end + 1 :])


def with_wrong_checksum(frame: bytes | bytearray | memoryview) -> bytes:
    """What readers of magic 0 have always got from Kafka."""
    end = _descriptor_end(frame)
    if end is None:
        return bytes(frame)
    return bytes(frame[:end]) + _checksum(frame[:end]) + bytes(frame[end + 1 :])


def _descriptor_end(frame: bytes | bytearray | memoryview) -> int | None:
    """Where the checksum stands; None if this is no frame, or one with a dictionary, which nobody can read."""
    if len(frame) < 7 or frame[:4] != _MAGIC or frame[4] & _DICTIONARY:
        return None
    end = 14 if frame[4] & _CONTENT_SIZE else 6
    return end if end < len(frame) else None


def _checksum(data: bytes | bytearray | memoryview) -> bytes:
    return bytes([xxh32(bytes(data)) >> 8 & 0xFF])


def xxh32(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes, which is all that a header without a dictionary has."""
    assert len(data) < 16, f"{len(data)=}"
    value = (_PRIME_5 + len(data)) & _MASK
    at = 0
    while at + 4 <= len(data):
        value = (value + int.from_bytes(data[at : at + 4], "little") * _PRIME_3) & _MASK
        value = _rotated(value, 17) * _PRIME_4 & _MASK
        at += 4
    for byte in data[at:]:
        value = (value + byte * _PRIME_5) & _MASK
        value = _rotated(value, 11) * _PRIME_1 & _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    return value ^ value >> 16


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> (32 - by)) & _MASK
