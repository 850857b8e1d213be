"""The numbers of variable length, and the tags nobody knows.

Everything of fixed size is `struct`'s business and everything else starts with a length, so varints
are all that is left.  Seven bits a byte, the low ones first, the high bit says that more follows;
the signed ones are folded first so that small negative numbers stay short.  A number that does not
end where its type ends is refused: five bytes for 32 bits, ten for 64.
"""

from __future__ import annotations

from typing import Final

from broker_lite.errors import Malformed

MAX_TAGS: Final = 64
"""More tagged fields in one struct than any version of any message will ever have."""

ONE_BYTE: Final = tuple(bytes([n]) for n in range(128))
"""The varints that are one byte long, which is nearly all of them."""

Buffer = bytes | bytearray | memoryview


def read_unsigned_varint(buf: Buffer, pos: int) -> tuple[int, int]:
    return _read(buf, pos, 32)


def read_varint(buf: Buffer, pos: int) -> tuple[int, int]:
    folded, pos = _read(buf, pos, 32)
    return (folded >> 1) ^ -(folded & 1), pos


def read_varlong(buf: Buffer, pos: int) -> tuple[int, int]:
    folded, pos = _read(buf, pos, 64)
    return (folded >> 1) ^ -(folded & 1), pos


def write_unsigned_varint(out: bytearray, value: int) -> None:
    out += unsigned_varint(value)


def write_varint(out: bytearray, value: int) -> None:
    out += unsigned_varint((value << 1) ^ (value >> 31))


def write_varlong(out: bytearray, value: int) -> None:
    out += unsigned_varint((value << 1) ^ (value >> 63))


def unsigned_varint(value: int) -> bytes:
    if value < 0:
        raise ValueError(f"an unsigned varint cannot be {value}")
    if value < 128:
        return ONE_BYTE[value]
    if value < 16384:
        return bytes((value & 127 | 128, value >> 7))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def more_of_varint(buf: Buffer, pos: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte, already read, said that more follows."""
    return _read(buf, pos - 1, 32) if first > 127 else (first, pos)


def skip_tags(buf: Buffer, pos: int, first: int) -> int:
    """Step over a struct's tagged fields when none of them is known; `first` is the count's first byte."""
    count, pos = more_of_varint(buf, pos, first)
    if count > MAX_TAGS:
        raise Malformed(f"{count} tagged fields in one struct, at most {MAX_TAGS} are read")
    for _ in range(count):
        _, pos = _read(buf, pos, 32)
        size, pos = _read(buf, pos, 32)
        pos += size
        if pos > len(buf):
            raise Malformed(f"a tagged field of {size} bytes ends {pos - len(buf)} past the message")
    return pos


def uuids(buf: memoryview, pos: int, count: int) -> list[bytes]:
    return [bytes(buf[at : at + 16]) for at in range(pos, pos + 16 * count, 16)]


def _read(buf: Buffer, pos: int, bits: int) -> tuple[int, int]:
    value = shift = 0
    try:
        while True:
            byte = buf[pos]
            pos += 1
            value |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
            if shift >= bits:
                raise Malformed(f"a varint of more than {bits} bits")
    except IndexError:
        raise Malformed(f"a varint runs past the end, at {pos} of {len(buf)}") from None
    if value >> bits:
        raise Malformed(f"a varint of more than {bits} bits")
    return value, pos
