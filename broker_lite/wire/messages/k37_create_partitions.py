"""CreatePartitions: more partitions for a topic."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int16, Int32, String, message, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: list[Int32]


@struct
class CreatePartitionsTopic:
    name: String
    count: Int32
    assignments: list[CreatePartitionsAssignment] | None


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """Raise these topics to a number of partitions."""

    topics: list[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool


@struct
class CreatePartitionsTopicResult:
    name: String
    error_code: Int16 = 0
    error_message: String | None = None


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    """Per topic whether it grew."""

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult]
