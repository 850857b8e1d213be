"""The one thing a coordinator reads of a classic consumer's metadata: the topics it wants.

`int16 version, [string topic], …`: every version starts like version 0, and no more than that is read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

CONSUMER = "consumer"
"""The protocol type of consumers, as opposed to Connect workers and others who use groups."""

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")


def topics_of(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics of all members; None if one of them cannot be read, because then we do not know."""
    topics: set[str] = set()
    for metadata in subscriptions:
        wanted = _topics(metadata)
        if wanted is None:
            return None
        topics.update(wanted)
    return frozenset(topics)


def _topics(metadata: bytes) -> list[str] | None:
    try:
        (count,) = _INT.unpack_from(metadata, 2)
        at, topics = 6, []
        if count > (len(metadata) - 6) // 2:
            return None
        for _ in range(count):
            (size,) = _SHORT.unpack_from(metadata, at)
            if size < 0 or at + 2 + size > len(metadata):
                return None
            topics.append(metadata[at + 2 : at + 2 + size].decode())
            at += 2 + size
    except (struct.error, UnicodeDecodeError):
        return None
    return topics
