"""OffsetFetch: how far a group has read."""

from __future__ import annotations

from broker_lite.wire.schema import ZERO_UUID, Bool, Int16, Int32, Int64, String, Uuid, field, message, since, struct


@struct
class OffsetFetchRequestTopic:
    name: String
    partition_indexes: list[Int32]


@struct
class OffsetFetchRequestTopics:
    name: String = field(versions="8-9", default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partition_indexes: list[Int32]


@struct
class OffsetFetchRequestGroup:
    group_id: String
    member_id: String | None = since(9, default=None, ignorable=True)
    member_epoch: Int32 = since(9, default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None


@message(key=9, versions="0-10", flexible="6+")
class OffsetFetchRequest:
    """What did the group commit? From version 8 for many groups at once."""

    group_id: String = field(versions="0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = field(versions="0-7", default=[], nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = since(8, default=[])
    require_stable: Bool = since(7, default=False)


@struct
class OffsetFetchResponsePartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(versions="5-7", default=-1)
    metadata: String | None
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopic:
    name: String
    partitions: list[OffsetFetchResponsePartition]


@struct
class OffsetFetchResponsePartitions:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = -1
    metadata: String | None
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopics:
    name: String = field(versions="8-9", default="")
    topic_id: Uuid = since(10, default=ZERO_UUID)
    partitions: list[OffsetFetchResponsePartitions]


@struct
class OffsetFetchResponseGroup:
    group_id: String
    topics: list[OffsetFetchResponseTopics]
    error_code: Int16 = 0


@message(key=9, versions="0-10", flexible="6+")
class OffsetFetchResponse:
    """The committed offsets, -1 where there is none."""

    throttle_time_ms: Int32 = since(3, default=0)
    topics: list[OffsetFetchResponseTopic] = field(versions="0-7", default=[])
    error_code: Int16 = field(versions="2-7", default=0)
    groups: list[OffsetFetchResponseGroup] = since(8, default=[])
