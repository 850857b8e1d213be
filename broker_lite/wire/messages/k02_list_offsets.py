"""ListOffsets: offsets by time."""

from __future__ import annotations

from broker_lite.wire.schema import Int8, Int16, Int32, Int64, String, field, message, since, struct


@struct
class ListOffsetsPartition:
    partition_index: Int32
    current_leader_epoch: Int32 = since(4, default=-1, ignorable=True)
    timestamp: Int64
    max_num_offsets: Int32 = field(versions="0", default=1)


@struct
class ListOffsetsTopic:
    name: String
    partitions: list[ListOffsetsPartition]


@message(key=2, versions="0-11", flexible="6+")
class ListOffsetsRequest:
    """Which offset has the first record at or after a timestamp? Negative timestamps name the special ones."""

    replica_id: Int32
    isolation_level: Int8 = since(2, default=0)
    topics: list[ListOffsetsTopic]
    timeout_ms: Int32 = since(10, default=0, ignorable=True)


@struct
class ListOffsetsPartitionResponse:
    partition_index: Int32
    error_code: Int16 = 0
    old_style_offsets: list[Int64] = field(versions="0", default=[])
    timestamp: Int64 = since(1, default=-1)
    offset: Int64 = since(1, default=-1)
    leader_epoch: Int32 = since(4, default=-1)


@struct
class ListOffsetsTopicResponse:
    name: String
    partitions: list[ListOffsetsPartitionResponse]


@message(key=2, versions="0-11", flexible="6+")
class ListOffsetsResponse:
    """One offset and its timestamp per partition; version 0 lists segment starts instead."""

    throttle_time_ms: Int32 = since(2, default=0)
    topics: list[ListOffsetsTopicResponse]
