"""AlterReplicaLogDirs: move partitions to another folder. There is one folder, so they are there already.

Versions
    2    flexible
"""

from __future__ import annotations

from pathlib import Path

from broker_lite.apis.registry import Context, serves
from broker_lite.errors import ErrorCode
from broker_lite.wire.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


@serves(AlterReplicaLogDirsRequest, versions="1-2")
def alter_replica_log_dirs(ctx: Context, req: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    ours = ctx.broker.folder.path.absolute()
    found: dict[str, dict[int, ErrorCode]] = {}
    for folder in req.dirs:
        is_ours = Path(folder.path) == ours
        for topic in folder.topics:
            for index in topic.partitions:
                code = _code(ctx, topic.name, index) if is_ours else ErrorCode.LOG_DIR_NOT_FOUND
                found.setdefault(topic.name, {})[index] = code
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    for index, code in codes.items()
                ],
            )
            for name, codes in found.items()
        ]
    )


def _code(ctx: Context, name: str, index: int) -> ErrorCode:
    topic = ctx.broker.topics.get(name)
    known = topic is not None and 0 <= index < topic.partition_count
    return ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
