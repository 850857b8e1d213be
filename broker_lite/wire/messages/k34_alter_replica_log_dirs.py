"""AlterReplicaLogDirs: replicas moved between directories."""

from __future__ import annotations

from broker_lite.wire.schema import Int16, Int32, String, message, struct


@struct
class AlterReplicaLogDirTopic:
    name: String
    partitions: list[Int32]


@struct
class AlterReplicaLogDir:
    path: String
    topics: list[AlterReplicaLogDirTopic]


@message(key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    """Move these replicas to another log directory."""

    dirs: list[AlterReplicaLogDir]


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: String
    partitions: list[AlterReplicaLogDirPartitionResult]


@message(key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    """Per partition whether the move began."""

    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult]
