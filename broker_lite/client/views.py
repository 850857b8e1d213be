"""What the client hands out, and how it reads what people type and brokers answer."""

from __future__ import annotations

from broker_lite.errors import BrokerError, ErrorCode, refusal
from broker_lite.shapes import dataclass, field
from broker_lite.wire.messages.k03_metadata import MetadataResponseTopic


@dataclass(slots=True)
class Produced:
    """Where a batch went. The offset is -1 where nobody was asked (acks=0)."""

    partition: int
    base_offset: int
    log_append_time: int = -1


@dataclass(slots=True)
class FoundOffset:
    offset: int
    timestamp: int
    leader_epoch: int


@dataclass(slots=True)
class TopicView:
    """A topic as Metadata tells it."""

    name: str
    topic_id: bytes
    is_internal: bool
    leaders: dict[int, int]
    partitions: list[PartitionView] = field(default_factory=list)


@dataclass(slots=True)
class PartitionView:
    index: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """`HOST:PORT,HOST:PORT`; ValueError if it is not that."""
    found: list[tuple[str, int]] = []
    for part in text.split(","):
        host, colon, port = part.strip().rpartition(":")
        if "://" in host:
            host = host.partition("://")[2]
        if not colon or not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{part.strip()!r} is not HOST:PORT")
        found.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return found


def view_of(topic: MetadataResponseTopic) -> TopicView:
    partitions = [
        PartitionView(part.partition_index, part.leader_id, part.leader_epoch, part.replica_nodes, part.isr_nodes)
        for part in sorted(topic.partitions, key=lambda part: part.partition_index)
    ]
    leaders = {part.index: part.leader for part in partitions}
    return TopicView(topic.name or "", topic.topic_id, topic.is_internal, leaders, partitions)


def refused(code: int, text: str) -> BrokerError:
    """The refusal that a broker answered with."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"error {code}: {text}")
    return refusal(known, f"{known.name}: {text}")
