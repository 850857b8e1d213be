"""Varints of many records at once: one array operation for what would be one loop a record.

`data` is always an array of bytes with PADDING zeros behind the last one that counts, so that reading a varint at
any position inside never leaves the array.  Whether a value may stand where it was found is for the caller to say;
only a varint that does not end is refused here.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

PADDING = 32


class Endless(Exception):
    """The varint at this index of the positions has more bytes than its type allows."""

    def __init__(self, index: int, bits: int) -> None:
        self.index = index
        super().__init__(f"a varint of more than {bits} bits")


def padded(data: bytes | bytearray | memoryview) -> Bytes:
    """The bytes as an array, with the padding behind them."""
    out = np.zeros(len(data) + PADDING, dtype=np.uint8)
    out[: len(data)] = np.frombuffer(data, dtype=np.uint8)
    return out


def read(data: Bytes, positions: Ints, bits: int = 32) -> tuple[Ints, Ints]:
    """The zig-zag values at `positions`, and the positions after them."""
    low = data[positions]
    long = low >= 0x80
    if not long.any():
        return _signed(low), positions + 1
    high = data[positions + 1]
    if not (long & (high >= 0x80)).any():
        # Two bytes at most, as most lengths and times have: small numbers in a quarter of the memory.
        return _signed((low & 0x7F) + high.astype(np.uint16) * (long * np.uint16(0x80))), positions + 1 + long
    return _read_long(data, positions, bits)


def _signed(value: npt.NDArray[np.uint8 | np.uint16]) -> Ints:
    """What numbers of at most fourteen bits mean: even ones are 0, 1, 2, odd ones -1, -2, -3."""
    half = (value >> 1).astype(np.int16)
    half ^= -(value & 1).astype(np.int16)
    return half.astype(np.int64)


def _read_long(data: Bytes, positions: Ints, bits: int) -> tuple[Ints, Ints]:
    first = data[positions]
    after = positions + 1
    value = (first & 0x7F).astype(np.uint64)
    more = np.flatnonzero(first & 0x80)
    shift = 7
    while more.size:
        if shift >= bits:
            raise Endless(int(more[0]), bits)
        byte = data[after[more]]
        after[more] += 1
        if shift + 7 > bits:
            over = np.flatnonzero((byte & 0x7F) >> (bits - shift))
            if over.size:
                raise Endless(int(more[over[0]]), bits)
        value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        more = more[byte >= 0x80]
        shift += 7
    return (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64), after
