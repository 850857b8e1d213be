"""OffsetDelete: forgetting a group's offsets."""

from __future__ import annotations

from broker_lite.wire.schema import Int16, Int32, String, message, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: Int32


@struct
class OffsetDeleteRequestTopic:
    name: String
    partitions: list[OffsetDeleteRequestPartition]


@message(key=47, versions="0")
class OffsetDeleteRequest:
    """Delete these committed offsets."""

    group_id: String
    topics: list[OffsetDeleteRequestTopic]


@struct
class OffsetDeleteResponsePartition:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class OffsetDeleteResponseTopic:
    name: String
    partitions: list[OffsetDeleteResponsePartition]


@message(key=47, versions="0")
class OffsetDeleteResponse:
    """Per partition whether the offset is gone."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic]
