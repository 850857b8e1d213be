"""ShareGroupHeartbeat: membership of a share group."""

from __future__ import annotations

from broker_lite.wire.schema import Int16, Int32, String, Uuid, message, struct


@message(key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatRequest:
    """What this member subscribes to; also the way to join and leave."""

    group_id: String
    member_id: String
    member_epoch: Int32
    rack_id: String | None = None
    subscribed_topic_names: list[String] | None = None


@struct
class TopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]


@struct
class Assignment:
    topic_partitions: list[TopicPartitions]


@message(key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatResponse:
    """The member's epoch and what it should read."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None
