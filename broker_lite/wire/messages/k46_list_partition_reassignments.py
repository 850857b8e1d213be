"""ListPartitionReassignments: replicas on the move."""

from __future__ import annotations

from broker_lite.wire.schema import Int16, Int32, String, message, struct


@struct
class ListPartitionReassignmentsTopics:
    name: String
    partition_indexes: list[Int32]


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    """Which partitions are being moved?"""

    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


@struct
class OngoingPartitionReassignment:
    partition_index: Int32
    replicas: list[Int32]
    adding_replicas: list[Int32]
    removing_replicas: list[Int32]


@struct
class OngoingTopicReassignment:
    name: String
    partitions: list[OngoingPartitionReassignment]


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    """The moves in progress."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None
    topics: list[OngoingTopicReassignment]
