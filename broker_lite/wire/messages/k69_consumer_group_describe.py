"""ConsumerGroupDescribe: groups that the broker assigns, in detail."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int8, Int16, Int32, String, Uuid, message, since, struct


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    """Describe these groups."""

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
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: Int8 = since(1, default=-1)


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


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    """Epochs, members and assignments of each group."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup]
