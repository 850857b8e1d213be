"""DescribeQuorum: the controllers' quorum."""

from __future__ import annotations

from broker_lite.wire.schema import ZERO_UUID, Int16, Int32, Int64, String, Uint16, Uuid, message, since, struct


@struct
class PartitionData:
    partition_index: Int32


@struct
class TopicData:
    topic_name: String
    partitions: list[PartitionData]


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    """Describe the quorum of these partitions."""

    topics: list[TopicData]


@struct
class ReplicaState:
    replica_id: Int32
    replica_directory_id: Uuid = since(2, default=ZERO_UUID)
    log_end_offset: Int64
    last_fetch_timestamp: Int64 = since(1, default=-1)
    last_caught_up_timestamp: Int64 = since(1, default=-1)


@struct
class PartitionDataResult:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = since(2, default="")
    leader_id: Int32
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]


@struct
class TopicDataResult:
    topic_name: String
    partitions: list[PartitionDataResult]


@struct
class Listener:
    name: String
    host: String
    port: Uint16


@struct
class Node:
    node_id: Int32
    listeners: list[Listener]


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    """Leader, voters and observers with how far they are."""

    error_code: Int16 = 0
    error_message: String | None = since(2, default="")
    topics: list[TopicDataResult]
    nodes: list[Node] = since(2, default=[])
