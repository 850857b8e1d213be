"""DeleteRecords: forget the oldest records of partitions.

Kafka may forget that it has forgotten, if it crashes; here the new start of the log is on disk before the answer.

Versions
    2    flexible
"""

from __future__ import annotations

from broker_lite.apis.registry import Context, serves
from broker_lite.config import topic as topic_keys
from broker_lite.errors import BrokerError, InvalidTopic, PolicyViolation, UnknownTopicOrPartition
from broker_lite.ids import Offset
from broker_lite.partition.partition import Partition
from broker_lite.shapes import dataclass
from broker_lite.wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


@dataclass(slots=True)
class _Asked:
    """What was asked of one partition, and the answer to it."""

    result: DeleteRecordsPartitionResult
    partition: Partition | None = None
    start: Offset = Offset(0)


@serves(DeleteRecordsRequest, versions="0-2")
async def delete_records(ctx: Context, req: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Each is decided by itself; all are written together, and only then is anything forgotten."""
    asked: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in req.topics:
        asked.setdefault(topic.name, {}).update((part.partition_index, part) for part in topic.partitions)
    decided = {name: await _of_topic(ctx, name, list(parts.values())) for name, parts in asked.items()}
    await _move(ctx, [one for parts in decided.values() for one in parts])
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=name, partitions=[one.result for one in parts])
            for name, parts in decided.items()
        ]
    )


async def _of_topic(ctx: Context, name: str, parts: list[DeleteRecordsPartition]) -> list[_Asked]:
    if ctx.broker.topics.get(name) is not None:
        try:
            await ctx.broker.removal.finished(name)
        except BrokerError as error:
            return [_refused(part, error) for part in parts]
    return [_decide(ctx, name, part) for part in parts]


async def _move(ctx: Context, decided: list[_Asked]) -> None:
    moving = [one for one in decided if one.partition is not None and one.start > one.partition.offsets.start]
    if moving:
        try:
            await ctx.broker.log_starts.move({one.partition: one.start for one in moving if one.partition is not None})
        except BrokerError as error:
            for one in moving:
                _refuse(one, error)
    for one in decided:
        if one.partition is not None:
            one.result.low_watermark = one.partition.offsets.start
            if ctx.broker.topics.by_id(one.partition.topic_id) is None:
                _refuse(one, UnknownTopicOrPartition(f"{one.partition.tp} was deleted meanwhile"))


def _refuse(one: _Asked, error: BrokerError) -> None:
    one.partition = None
    one.result.low_watermark, one.result.error_code = -1, error.code


def _refused(asked: DeleteRecordsPartition, error: BrokerError) -> _Asked:
    index = asked.partition_index
    return _Asked(DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=error.code))


def _decide(ctx: Context, name: str, asked: DeleteRecordsPartition) -> _Asked:
    topics = ctx.broker.topics
    try:
        topic = topics.get(name)
        if topic is None or not 0 <= asked.partition_index < topic.partition_count:
            raise UnknownTopicOrPartition(f"there is no partition {name[:249]}-{asked.partition_index}")
        if topic.is_internal:
            raise InvalidTopic(f"records of {name} are the broker's own")
        policy = topic.settings.get(topic_keys.CLEANUP_POLICY)
        if policy and "delete" not in policy:
            raise PolicyViolation(f"the cleanup.policy of {name} is {','.join(policy)}, so nothing is ever deleted")
        partition = topics.partition(name, asked.partition_index)
        start = partition.start_without(asked.offset)
    except BrokerError as error:
        return _refused(asked, error)
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=start)
    return _Asked(result, partition, start)
