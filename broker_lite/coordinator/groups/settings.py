"""The limits a group coordinator works within. Kafka's names are beside each."""

from __future__ import annotations

from collections.abc import Callable

from broker_lite.shapes import dataclass

MINUTES = 60_000
DAYS = 24 * 60 * MINUTES


@dataclass(slots=True, frozen=True)
class ConsumerSettings:
    """What a consumer group may have otherwise than the rest (KIP-1049)."""

    session_ms: int = 45_000  # consumer.session.timeout.ms
    heartbeat_ms: int = 5_000  # consumer.heartbeat.interval.ms
    assignment_interval_ms: int = 0  # consumer.assignment.interval.ms


@dataclass(slots=True)
class GroupSettings:
    min_session_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_ms: int = 30 * MINUTES  # group.max.session.timeout.ms
    max_size: int = 2**31 - 1  # group.max.size
    initial_delay_ms: int = 100  # group.initial.rebalance.delay.ms
    new_member_join_ms: int = 5 * MINUTES
    """How long a newcomer's JoinGroup may be parked: it has no session yet that could end."""
    metadata_max: int = 4096  # offset.metadata.max.bytes
    retention_ms: int = 7 * DAYS  # offsets.retention.minutes
    retention_check_ms: int = 10 * MINUTES  # offsets.retention.check.interval.ms

    consumer: Callable[[str], ConsumerSettings] = lambda _: ConsumerSettings()
    """What holds for a consumer group, by its id. Asked each time: a change takes hold with the next heartbeat."""
    consumer_max_size: int = 2**31 - 1  # group.consumer.max.size
    assignors: tuple[str, ...] = ("uniform", "range")  # group.consumer.assignors; the first is the default
    migration: str = "bidirectional"  # group.consumer.migration.policy
