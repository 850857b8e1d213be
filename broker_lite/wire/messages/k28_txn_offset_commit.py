"""TxnOffsetCommit: offsets committed by a transaction."""

from __future__ import annotations

from broker_lite.wire.schema import Int16, Int32, Int64, String, message, since, struct


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since(2, default=-1, ignorable=True)
    committed_metadata: String | None


@struct
class TxnOffsetCommitRequestTopic:
    name: String
    partitions: list[TxnOffsetCommitRequestPartition]


@message(key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitRequest:
    """Remember these offsets once the transaction commits."""

    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = since(3, default=-1)
    member_id: String = since(3, default="")
    group_instance_id: String | None = since(3, default=None)
    topics: list[TxnOffsetCommitRequestTopic]


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class TxnOffsetCommitResponseTopic:
    name: String
    partitions: list[TxnOffsetCommitResponsePartition]


@message(key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitResponse:
    """Which offsets were taken."""

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic]
