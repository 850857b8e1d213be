"""The keys of a group: what one group may have otherwise than the rest, as Kafka 4.3 lists them.

A group's own word lies over the broker's `group.consumer.*`, `group.share.*` and `group.streams.*`.
"""

from __future__ import annotations

from broker_lite.config.key import Key, Kind, Scope, Synonym, keys_in

_G = Scope.GROUP
_NO_STREAMS = "there are no streams groups"
_NOT_YET = "share groups follow the broker's settings"


def _broker(name: str) -> tuple[Synonym, ...]:
    return (Synonym(f"group.{name}"),)


CONSUMER_SESSION_TIMEOUT_MS = Key(
    "consumer.session.timeout.ms", Kind.INT, 45000, "The session of a member of this consumer group.",
    scope=_G, low=1, dynamic=True, synonyms=_broker("consumer.session.timeout.ms"),
)  # fmt: skip
CONSUMER_HEARTBEAT_INTERVAL_MS = Key(
    "consumer.heartbeat.interval.ms", Kind.INT, 5000, "How often a member of this consumer group reports.",
    scope=_G, low=1, dynamic=True, synonyms=_broker("consumer.heartbeat.interval.ms"),
)  # fmt: skip
CONSUMER_ASSIGNMENT_INTERVAL_MS = Key(
    "consumer.assignment.interval.ms", Kind.INT, 0, "The time between two assignments of this consumer group.",
    scope=_G, low=0, dynamic=True, synonyms=_broker("consumer.assignment.interval.ms"),
)  # fmt: skip
SHARE_SESSION_TIMEOUT_MS = Key(
    "share.session.timeout.ms", Kind.INT, 45000, "The session of a member of this share group.",
    scope=_G, low=1, dynamic=True, ignored=_NOT_YET,
)  # fmt: skip
SHARE_HEARTBEAT_INTERVAL_MS = Key(
    "share.heartbeat.interval.ms", Kind.INT, 5000, "How often a member of this share group reports.",
    scope=_G, low=1, dynamic=True, ignored=_NOT_YET,
)  # fmt: skip
SHARE_ASSIGNMENT_INTERVAL_MS = Key(
    "share.assignment.interval.ms", Kind.INT, 1000, "The time between two assignments of this share group.",
    scope=_G, low=0, dynamic=True, ignored="a group is assigned as soon as it changes",
)  # fmt: skip
SHARE_RECORD_LOCK_DURATION_MS = Key(
    "share.record.lock.duration.ms", Kind.INT, 30000, "How long a record is a member's before another may have it.",
    scope=_G, low=1000, dynamic=True, ignored=_NOT_YET,
)  # fmt: skip
SHARE_DELIVERY_COUNT_LIMIT = Key(
    "share.delivery.count.limit", Kind.INT, 5, "How often a record is handed out before it is given up.",
    scope=_G, low=2, dynamic=True, ignored=_NOT_YET,
)  # fmt: skip
SHARE_PARTITION_MAX_RECORD_LOCKS = Key(
    "share.partition.max.record.locks", Kind.INT, 2000, "Records of a partition in members' hands at once.",
    scope=_G, low=100, dynamic=True, ignored=_NOT_YET,
)  # fmt: skip
SHARE_AUTO_OFFSET_RESET = Key(
    "share.auto.offset.reset", Kind.STRING, "latest", "Where a share group begins: latest, earliest, by_duration:….",
    scope=_G, dynamic=True, ignored=_NOT_YET,
)  # fmt: skip
SHARE_ISOLATION_LEVEL = Key(
    "share.isolation.level", Kind.STRING, "read_uncommitted", "Whether open and aborted transactions are seen.",
    scope=_G, choices=("read_committed", "read_uncommitted"), dynamic=True, ignored=_NOT_YET,
)  # fmt: skip
SHARE_RENEW_ACKNOWLEDGE_ENABLE = Key(
    "share.renew.acknowledge.enable", Kind.BOOLEAN, True, "Whether members may ask for more time with a record.",
    scope=_G, dynamic=True, ignored=_NOT_YET,
)  # fmt: skip
STREAMS_SESSION_TIMEOUT_MS = Key(
    "streams.session.timeout.ms", Kind.INT, 45000, "The session of a member of this streams group.",
    scope=_G, low=1, dynamic=True, ignored=_NO_STREAMS,
)  # fmt: skip
STREAMS_HEARTBEAT_INTERVAL_MS = Key(
    "streams.heartbeat.interval.ms", Kind.INT, 5000, "How often a member of this streams group reports.",
    scope=_G, low=1, dynamic=True, ignored=_NO_STREAMS,
)  # fmt: skip
STREAMS_ASSIGNMENT_INTERVAL_MS = Key(
    "streams.assignment.interval.ms", Kind.INT, 1000, "The time between two assignments of this streams group.",
    scope=_G, low=0, dynamic=True, ignored=_NO_STREAMS,
)  # fmt: skip
STREAMS_NUM_STANDBY_REPLICAS = Key(
    "streams.num.standby.replicas", Kind.INT, 0, "Standby copies of each task of this streams group.",
    scope=_G, low=0, dynamic=True, ignored=_NO_STREAMS,
)  # fmt: skip
STREAMS_INITIAL_REBALANCE_DELAY_MS = Key(
    "streams.initial.rebalance.delay.ms", Kind.INT, 3000, "How long a new streams group waits for more members.",
    scope=_G, low=0, dynamic=True, ignored=_NO_STREAMS,
)  # fmt: skip

GROUP_KEYS: dict[str, Key[object]] = keys_in(dict(globals()))
