"""Which partition of an internal topic keeps a group or a transactional id: the one that Kafka takes."""

from __future__ import annotations

from functools import lru_cache

LONGEST_CACHED_NAME = 256
"""Characters. A client may invent names of 32 KB; ten thousand of them would be 320 MB."""


def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 units, in 32 bits with a sign."""
    units = text.encode("utf-16-be", "surrogatepass")
    number = 0
    for at in range(0, len(units), 2):
        number = (31 * number + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number


def partition_of(name: str, count: int) -> int:
    """The partition of an internal topic that keeps a group or a transactional id."""
    return _partition_of(name, count) if len(name) <= LONGEST_CACHED_NAME else _hash_to_partition(name, count)


def _hash_to_partition(name: str, count: int) -> int:
    number = java_hash(name)
    return 0 if number == -(2**31) else abs(number) % count


_partition_of = lru_cache(maxsize=2000)(_hash_to_partition)
