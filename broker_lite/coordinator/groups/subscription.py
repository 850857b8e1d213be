"""What classic consumers say to each other through the broker: `int16 version` and then one of these.

The broker hands these bytes round without looking.  It reads the topics of a subscription, to know which offsets are
still of use; and subscriptions and assignments as a whole when a group changes to the protocol in which it assigns.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from broker_lite.errors import Malformed
from broker_lite.wire.codec import decode, encode_bytes
from broker_lite.wire.schema import Bytes, Int32, String, message, since, struct

CONSUMER = "consumer"
"""The protocol type of consumers, as opposed to Connect workers and others who use groups."""

NEWEST = 3
_SHORT = Struct(">h")


@struct
class TopicPartition:
    topic: String
    partitions: list[Int32]


@message(key=None, versions="0-3")
class ConsumerProtocolSubscription:
    topics: list[String]
    user_data: Bytes | None = None
    owned_partitions: list[TopicPartition] = since(1, default=[])
    generation_id: Int32 = since(2, default=-1)
    rack_id: String | None = since(3, default=None)


@message(key=None, versions="0-3")
class ConsumerProtocolAssignment:
    assigned_partitions: list[TopicPartition]
    user_data: Bytes | None = None


@message(key=None, versions="0")
class _Topics:
    """How every version of a subscription begins."""

    topics: list[String]


def topics_of(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics of all members; None if one of them cannot be read, because then we do not know."""
    topics: set[str] = set()
    try:
        for metadata in subscriptions:
            version_of(metadata)
            found, _ = decode(_Topics, 0, memoryview(metadata), 2)
            topics.update(found.topics)
    except Malformed:
        return None
    return frozenset(topics)


def version_of(blob: bytes) -> int:
    """The version it is written in, or the newest we know if that is older. Malformed if there is none."""
    if len(blob) < 2:
        raise Malformed(f"{len(blob)} bytes are no consumer protocol")
    (version,) = _SHORT.unpack_from(blob)
    if version < 0:
        raise Malformed(f"{version} is no version")
    return min(int(version), NEWEST)


def read_subscription(blob: bytes) -> ConsumerProtocolSubscription:
    found, _ = decode(ConsumerProtocolSubscription, version_of(blob), memoryview(blob), 2)
    return found


def read_assignment(blob: bytes) -> ConsumerProtocolAssignment:
    if not blob:
        return ConsumerProtocolAssignment(assigned_partitions=[])
    found, _ = decode(ConsumerProtocolAssignment, version_of(blob), memoryview(blob), 2)
    return found


def write_assignment(topics: Iterable[tuple[str, list[int]]], version: int) -> bytes:
    lines = [TopicPartition(topic=topic, partitions=partitions) for topic, partitions in topics]
    return _SHORT.pack(version) + encode_bytes(ConsumerProtocolAssignment(assigned_partitions=lines), version)
