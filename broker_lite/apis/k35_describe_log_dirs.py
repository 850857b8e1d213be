"""DescribeLogDirs: what lies in the data folder, partition by partition.

Versions
    2    flexible
    3    a top-level error
    4    the size of the disk and what is free of it
    5    whether the folder takes new partitions (it does)
"""

from __future__ import annotations

import shutil
from pathlib import Path

from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.broker.responses import units
from broker_lite.config.start import Durability
from broker_lite.wire.messages.k35_describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


@serves(DescribeLogDirsRequest, versions="1-5")
def describe_log_dirs(ctx: Context, req: DescribeLogDirsRequest) -> Steps[DescribeLogDirsResponse]:
    wanted = None if req.topics is None else _wanted(req.topics)
    found: dict[str, list[DescribeLogDirsPartition]] = {}
    for topic in list(ctx.broker.topics):
        yield units(len(topic.name))
        parts = [
            DescribeLogDirsPartition(partition_index=index, partition_size=size, offset_lag=0, is_future_key=False)
            for index, size in ctx.broker.topics.sizes(topic)
            if wanted is None or (topic.name, index) in wanted
        ]
        if parts:
            yield len(parts)
            found[topic.name] = parts
    folder = ctx.broker.folder.path.absolute()
    total, usable = (-1, -1) if ctx.broker.options.durability is Durability.MEMORY else _disk(folder)
    result = DescribeLogDirsResult(
        log_dir=str(folder),
        topics=[DescribeLogDirsTopic(name=name, partitions=parts) for name, parts in found.items()],
        total_bytes=total,
        usable_bytes=usable,
    )
    return DescribeLogDirsResponse(results=[result])


def _wanted(topics: list[DescribableLogDirTopic]) -> set[tuple[str, int]]:
    return {(topic.topic, index) for topic in topics for index in topic.partitions}


def _disk(folder: Path) -> tuple[int, int]:
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return -1, -1
    return usage.total, usage.free
