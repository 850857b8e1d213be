"""Fetch: record batches on their way out of partitions."""

from __future__ import annotations

from broker_lite.wire.schema import (
    ZERO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    LazyRecords,
    String,
    Uuid,
    field,
    message,
    since,
    struct,
)


@struct
class ReplicaState:
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@struct
class FetchPartition:
    partition: Int32
    current_leader_epoch: Int32 = since(9, default=-1, ignorable=True)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = since(12, default=-1)
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    partition_max_bytes: Int32
    replica_directory_id: Uuid = since(17, default=ZERO_UUID, tag=0, ignorable=True)
    high_watermark: Int64 = since(18, default=0x7FFF_FFFF_FFFF_FFFF, tag=1, ignorable=True)


@struct
class FetchTopic:
    topic: String = field(versions="0-12", default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition]


@struct
class ForgottenTopic:
    topic: String = field(versions="7-12", default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: list[Int32]


@message(key=1, versions="0-18", flexible="12+")
class FetchRequest:
    """Read from these offsets; wait for bytes if there are none yet."""

    cluster_id: String | None = since(12, default=None, tag=0, ignorable=True)
    replica_id: Int32 = field(versions="0-14", default=-1)
    replica_state: ReplicaState = since(15, default=ReplicaState(), tag=1)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = since(3, default=0x7FFF_FFFF, ignorable=True)
    isolation_level: Int8 = since(4, default=0, ignorable=True)
    session_id: Int32 = since(7, default=0, ignorable=True)
    session_epoch: Int32 = since(7, default=-1, ignorable=True)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = since(7, default=[])
    rack_id: String = since(11, default="", ignorable=True)


@struct
class EpochEndOffset:
    epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class SnapshotId:
    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class AbortedTransaction:
    producer_id: Int64
    first_offset: Int64


@struct
class PartitionData:
    partition_index: Int32
    error_code: Int16 = 0
    high_watermark: Int64
    last_stable_offset: Int64 = since(4, default=-1)
    log_start_offset: Int64 = since(5, default=-1)
    diverging_epoch: EpochEndOffset = since(12, default=EpochEndOffset(), tag=0)
    current_leader: LeaderIdAndEpoch = since(12, default=LeaderIdAndEpoch(), tag=1)
    snapshot_id: SnapshotId = since(12, default=SnapshotId(), tag=2)
    aborted_transactions: list[AbortedTransaction] | None = since(4, default=[])
    preferred_read_replica: Int32 = since(11, default=-1)
    records: LazyRecords | None


@struct
class FetchableTopicResponse:
    topic: String = field(versions="0-12", default="")
    topic_id: Uuid = since(13, default=ZERO_UUID)
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


@message(key=1, versions="0-18", flexible="12+")
class FetchResponse:
    """The batches as they lie in the log, with the offsets a reader needs to go on."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = since(7, default=0)
    session_id: Int32 = since(7, default=0)
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = since(16, default=[], tag=0)
