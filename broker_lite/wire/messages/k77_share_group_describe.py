"""ShareGroupDescribe: share groups in detail."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int16, Int32, String, Uuid, message, struct


@message(key=77, versions="1", flexible="0+")
class ShareGroupDescribeRequest:
    """Describe these share groups."""

    group_ids: list[String]
    include_authorized_operations: Bool


@struct
class TopicPartitions:
    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


@struct
class Assignment:
    topic_partitions: list[TopicPartitions]


@struct
class Member:
    member_id: String
    rack_id: String | None = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    assignment: Assignment


@struct
class DescribedGroup:
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: list[Member]
    authorized_operations: Int32 = -2147483648


@message(key=77, versions="1", flexible="0+")
class ShareGroupDescribeResponse:
    """Epochs, members and assignments of each group."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup]
