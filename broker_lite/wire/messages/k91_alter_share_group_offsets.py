"""AlterShareGroupOffsets: where a share group starts: move."""

from __future__ import annotations

from broker_lite.wire.schema import Int16, Int32, Int64, String, Uuid, message, struct


@struct
class AlterShareGroupOffsetsRequestPartition:
    partition_index: Int32
    start_offset: Int64


@struct
class AlterShareGroupOffsetsRequestTopic:
    topic_name: String
    partitions: list[AlterShareGroupOffsetsRequestPartition]


@message(key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest:
    """Set these start offsets."""

    group_id: String
    topics: list[AlterShareGroupOffsetsRequestTopic]


@struct
class AlterShareGroupOffsetsResponsePartition:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class AlterShareGroupOffsetsResponseTopic:
    topic_name: String
    topic_id: Uuid
    partitions: list[AlterShareGroupOffsetsResponsePartition]


@message(key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse:
    """Per partition whether it was moved."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic]
