"""ElectLeaders: choosing partition leaders."""

from __future__ import annotations

from broker_lite.wire.schema import Int8, Int16, Int32, String, message, since, struct


@struct
class TopicPartitions:
    topic: String
    partitions: list[Int32]


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    """Elect leaders for these partitions."""

    election_type: Int8 = since(1, default=0)
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: Int32 = 60000


@struct
class PartitionResult:
    partition_id: Int32
    error_code: Int16 = 0
    error_message: String | None


@struct
class ReplicaElectionResult:
    topic: String
    partition_result: list[PartitionResult]


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    """Per partition the outcome of the election."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(1, default=0)
    replica_election_results: list[ReplicaElectionResult]
