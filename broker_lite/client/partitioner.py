"""Which partition a key belongs to: the one that Kafka's Java client chooses, so that both write a key to one place."""

from __future__ import annotations

_M = 0x5BD1E995
_SEED = 0x9747B28C
_32 = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit hash, unsigned, of Kafka's default partitioner."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _32
        k = (k ^ (k >> 24)) * _M & _32
        h = (h * _M & _32) ^ k
    if length > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _32
    h = (h ^ (h >> 13)) * _M & _32
    return h ^ (h >> 15)


def partition_for(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions
