"""DescribeTopicPartitions: partitions of topics, page by page."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int16, Int32, String, Uuid, message, struct


@struct
class TopicRequest:
    name: String


@struct
class Cursor:
    topic_name: String
    partition_index: Int32


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    """Describe these topics, from a cursor on."""

    topics: list[TopicRequest]
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32]


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: Int16 = 0
    name: String | None
    topic_id: Uuid
    is_internal: Bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = -2147483648


@struct
class CursorResult:
    topic_name: String
    partition_index: Int32


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    """A page of partitions and where the next one starts."""

    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: CursorResult | None = None
