"""DeleteRecords: forgetting the oldest records."""

from __future__ import annotations

from broker_lite.wire.schema import Int16, Int32, Int64, String, message, struct


@struct
class DeleteRecordsPartition:
    partition_index: Int32
    offset: Int64


@struct
class DeleteRecordsTopic:
    name: String
    partitions: list[DeleteRecordsPartition]


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    """Delete all records below these offsets."""

    topics: list[DeleteRecordsTopic]
    timeout_ms: Int32


@struct
class DeleteRecordsPartitionResult:
    partition_index: Int32
    low_watermark: Int64
    error_code: Int16 = 0


@struct
class DeleteRecordsTopicResult:
    name: String
    partitions: list[DeleteRecordsPartitionResult]


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    """The new first offset of each partition."""

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult]
