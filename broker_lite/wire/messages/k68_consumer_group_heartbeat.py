"""ConsumerGroupHeartbeat: membership of a group that the broker assigns."""

from __future__ import annotations

from broker_lite.wire.schema import Int16, Int32, String, Uuid, message, since, struct


@struct
class TopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]


@message(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    """What this member subscribes to and owns; also the way to join and leave."""

    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[String] | None = None
    subscribed_topic_regex: String | None = since(1, default=None)
    server_assignor: String | None = None
    topic_partitions: list[TopicPartitions] | None = None


@struct
class TopicPartitionsResult:
    topic_id: Uuid
    partitions: list[Int32]


@struct
class Assignment:
    topic_partitions: list[TopicPartitionsResult]


@message(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    """The member's epoch and what it should own."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None
