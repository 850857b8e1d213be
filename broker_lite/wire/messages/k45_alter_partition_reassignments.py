"""AlterPartitionReassignments: replicas moved between brokers."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int16, Int32, String, message, since, struct


@struct
class ReassignablePartition:
    partition_index: Int32
    replicas: list[Int32] | None = None


@struct
class ReassignableTopic:
    name: String
    partitions: list[ReassignablePartition]


@message(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    """Move these partitions, or cancel their move."""

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Bool = since(1, default=True)
    topics: list[ReassignableTopic]


@struct
class ReassignablePartitionResponse:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None


@struct
class ReassignableTopicResponse:
    name: String
    partitions: list[ReassignablePartitionResponse]


@message(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    """Per partition whether the move began."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Bool = since(1, default=True)
    error_code: Int16 = 0
    error_message: String | None
    responses: list[ReassignableTopicResponse]
