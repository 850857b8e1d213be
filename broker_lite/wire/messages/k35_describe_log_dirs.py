"""DescribeLogDirs: what lies in the log directories."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int16, Int32, Int64, String, message, since, struct


@struct
class DescribableLogDirTopic:
    topic: String
    partitions: list[Int32]


@message(key=35, versions="0-5", flexible="2+")
class DescribeLogDirsRequest:
    """Describe the directories, for these topics or all."""

    topics: list[DescribableLogDirTopic] | None


@struct
class DescribeLogDirsPartition:
    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool


@struct
class DescribeLogDirsTopic:
    name: String
    partitions: list[DescribeLogDirsPartition]


@struct
class DescribeLogDirsResult:
    error_code: Int16 = 0
    log_dir: String
    topics: list[DescribeLogDirsTopic]
    total_bytes: Int64 = since(4, default=-1)
    usable_bytes: Int64 = since(4, default=-1)
    is_cordoned: Bool = since(5, default=False)


@message(key=35, versions="0-5", flexible="2+")
class DescribeLogDirsResponse:
    """Sizes per directory and partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(3, default=0)
    results: list[DescribeLogDirsResult]
