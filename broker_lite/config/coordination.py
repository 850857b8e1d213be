"""The keys of the coordinators: groups, their offsets, and transactions."""

from __future__ import annotations

from broker_lite.config.key import INT_MAX, Key, Kind, keys_in

_PROTOCOLS = ("classic", "consumer", "share", "streams")

# Groups.

GROUP_INITIAL_REBALANCE_DELAY_MS = Key(
    # Without any delay, consumers that start together wait for each other's next heartbeat, three seconds in most
    # clients.  And kafka-python asks for the partitions of its topics 100 ms after it has connected: as leader of a
    # generation that is complete at about that moment it may assign nothing and never notice, as it did with 50 ms.
    "group.initial.rebalance.delay.ms", Kind.INT, 100,
    "How long a new group waits for more members. Kafka's default is 3 seconds; a test does not want to wait.",
)  # fmt: skip
GROUP_MIN_SESSION_TIMEOUT_MS = Key(
    "group.min.session.timeout.ms", Kind.INT, 6000, "The shortest session that a classic member may ask for.",
)  # fmt: skip
GROUP_MAX_SESSION_TIMEOUT_MS = Key(
    "group.max.session.timeout.ms", Kind.INT, 1800000, "The longest session that a classic member may ask for.",
)  # fmt: skip
GROUP_MAX_SIZE = Key("group.max.size", Kind.INT, INT_MAX, "Members of a classic group at most.", low=1)
GROUP_COORDINATOR_REBALANCE_PROTOCOLS: Key[tuple[str, ...]] = Key(
    "group.coordinator.rebalance.protocols", Kind.LIST, ("classic", "consumer", "streams"),
    "The kinds of groups that are served.",
    choices=_PROTOCOLS,
)  # fmt: skip
GROUP_CONSUMER_SESSION_TIMEOUT_MS = Key(
    "group.consumer.session.timeout.ms", Kind.INT, 45000, "The session of a member of a consumer group.",
    low=1,
)  # fmt: skip
GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS = Key(
    "group.consumer.min.session.timeout.ms", Kind.INT, 45000, "The shortest that a group may be configured to.",
    low=1,
)  # fmt: skip
GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS = Key(
    "group.consumer.max.session.timeout.ms", Kind.INT, 60000, "The longest that a group may be configured to.",
    low=1,
)  # fmt: skip
GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS = Key(
    "group.consumer.heartbeat.interval.ms", Kind.INT, 5000, "How often a member of a consumer group reports.",
    low=1,
)  # fmt: skip
GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS = Key(
    "group.consumer.min.heartbeat.interval.ms", Kind.INT, 5000, "The shortest that a group may be configured to.",
    low=1,
)  # fmt: skip
GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS = Key(
    "group.consumer.max.heartbeat.interval.ms", Kind.INT, 15000, "The longest that a group may be configured to.",
    low=1,
)  # fmt: skip
GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS = Key(
    "group.consumer.assignment.interval.ms", Kind.INT, 0,
    "The time between two assignments of a consumer group. Kafka's default is 1 second; a test does not want to wait.",
    low=0, dynamic=True,
)  # fmt: skip
GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS = Key(
    "group.consumer.min.assignment.interval.ms", Kind.INT, 0, "The shortest that a group may be configured to.",
    low=0,
)  # fmt: skip
GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS = Key(
    "group.consumer.max.assignment.interval.ms", Kind.INT, 15000, "The longest that a group may be configured to.",
    low=0,
)  # fmt: skip
GROUP_CONSUMER_MAX_SIZE = Key(
    "group.consumer.max.size", Kind.INT, INT_MAX, "Members of a consumer group at most.", low=1
)
GROUP_CONSUMER_ASSIGNORS: Key[tuple[str, ...]] = Key(
    "group.consumer.assignors", Kind.LIST, ("uniform", "range"), "How partitions are shared out, the default first.",
    choices=("uniform", "range"),
)  # fmt: skip
GROUP_CONSUMER_MIGRATION_POLICY = Key(
    "group.consumer.migration.policy", Kind.STRING, "bidirectional", "Which groups may change their protocol in use.",
    choices=("disabled", "downgrade", "upgrade", "bidirectional"),
)  # fmt: skip

# Committed offsets.

OFFSETS_TOPIC_NUM_PARTITIONS = Key(
    "offsets.topic.num.partitions", Kind.INT, 50, "Partitions of __consumer_offsets, when it is made.", low=1,
)  # fmt: skip
OFFSETS_TOPIC_SEGMENT_BYTES = Key(
    "offsets.topic.segment.bytes", Kind.INT, 104857600, "Segment size of __consumer_offsets, when it is made.", low=1,
)  # fmt: skip
OFFSETS_RETENTION_MINUTES = Key(
    "offsets.retention.minutes", Kind.INT, 10080, "How long the offsets of an empty group are kept.", low=1,
)  # fmt: skip
OFFSETS_RETENTION_CHECK_INTERVAL_MS = Key(
    "offsets.retention.check.interval.ms", Kind.LONG, 600000, "How often old offsets are looked for.", low=1,
)  # fmt: skip
OFFSET_METADATA_MAX_BYTES = Key(
    "offset.metadata.max.bytes", Kind.INT, 4096, "The longest note beside a committed offset."
)

# Transactions.

TRANSACTION_MAX_TIMEOUT_MS = Key(
    "transaction.max.timeout.ms", Kind.INT, 900000, "The longest transaction that a producer may ask for.", low=1,
)  # fmt: skip
TRANSACTIONAL_ID_EXPIRATION_MS = Key(
    "transactional.id.expiration.ms", Kind.INT, 604800000, "A transactional id is forgotten after so long.", low=1,
)  # fmt: skip
TRANSACTION_STATE_LOG_NUM_PARTITIONS = Key(
    "transaction.state.log.num.partitions", Kind.INT, 50, "Partitions of __transaction_state, when it is made.", low=1,
)  # fmt: skip
TRANSACTION_STATE_LOG_SEGMENT_BYTES = Key(
    "transaction.state.log.segment.bytes", Kind.INT, 104857600, "Segment size of __transaction_state, when it is made.",
    low=1,
)  # fmt: skip
TRANSACTION_ABORT_TIMED_OUT_INTERVAL_MS = Key(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms", Kind.INT, 10000,
    "How often transactions that took too long are looked for.", low=1,
)  # fmt: skip
TRANSACTION_REMOVE_EXPIRED_INTERVAL_MS = Key(
    "transaction.remove.expired.transaction.cleanup.interval.ms", Kind.INT, 3600000,
    "How often expired transactional ids are looked for.", low=1,
)  # fmt: skip
TRANSACTION_PARTITION_VERIFICATION_ENABLE = Key(
    "transaction.partition.verification.enable", Kind.BOOLEAN, True,
    "Refuse a transactional batch for a partition that is not part of an open transaction.",
    dynamic=True,
)  # fmt: skip

COORDINATION_KEYS: dict[str, Key[object]] = keys_in(dict(globals()))
