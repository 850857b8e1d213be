"""OffsetForLeaderEpoch: where a leader epoch ended."""

from __future__ import annotations

from broker_lite.wire.schema import Int16, Int32, Int64, String, message, since, struct


@struct
class OffsetForLeaderPartition:
    partition: Int32
    current_leader_epoch: Int32 = since(2, default=-1, ignorable=True)
    leader_epoch: Int32


@struct
class OffsetForLeaderTopic:
    topic: String
    partitions: list[OffsetForLeaderPartition]


@message(key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    """Where does the log of this leader epoch end?"""

    replica_id: Int32 = since(3, default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic]


@struct
class EpochEndOffset:
    error_code: Int16 = 0
    partition: Int32
    leader_epoch: Int32 = since(1, default=-1)
    end_offset: Int64 = -1


@struct
class OffsetForLeaderTopicResult:
    topic: String
    partitions: list[EpochEndOffset]


@message(key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    """The epoch found and its end offset, by which a client sees truncation."""

    throttle_time_ms: Int32 = since(2, default=0)
    topics: list[OffsetForLeaderTopicResult]
