"""OffsetCommit: how far a group has read."""

from __future__ import annotations

from broker_lite.wire.schema import ZERO_UUID, Int16, Int32, Int64, String, Uuid, field, message, since, struct


@struct
class OffsetCommitRequestPartition:
    partition_index: Int32
    committed_offset: Int64
    commit_timestamp: Int64 = field(versions="1", default=-1)
    committed_leader_epoch: Int32 = since(6, default=-1, ignorable=True)
    committed_metadata: String | None


@struct
class OffsetCommitRequestTopic:
    name: String = field(versions="0-9", default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition]


@message(key=8, versions="0-10", flexible="8+")
class OffsetCommitRequest:
    """Remember these offsets for the group."""

    group_id: String
    generation_id_or_member_epoch: Int32 = since(1, default=-1, ignorable=True)
    member_id: String = since(1, default="", ignorable=True)
    group_instance_id: String | None = since(7, default=None)
    retention_time_ms: Int64 = field(versions="2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic]


@struct
class OffsetCommitResponsePartition:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class OffsetCommitResponseTopic:
    name: String = field(versions="0-9", default="")
    topic_id: Uuid = since(10, default=ZERO_UUID)
    partitions: list[OffsetCommitResponsePartition]


@message(key=8, versions="0-10", flexible="8+")
class OffsetCommitResponse:
    """Which offsets were remembered."""

    throttle_time_ms: Int32 = since(3, default=0)
    topics: list[OffsetCommitResponseTopic]
