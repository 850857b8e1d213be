"""DeleteRecords: forget the oldest records of partitions.

Kafka may forget that it has forgotten, if it crashes; here the new start of the log is on disk before the answer.

Versions
    2    flexible
"""

from __future__ import annotations

from broker_lite.apis.registry import Context, serves
from broker_lite.config import topic as topic_keys
from broker_lite.errors import BrokerError, InvalidTopic, PolicyViolation, UnknownTopicOrPartition
from broker_lite.wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


@serves(DeleteRecordsRequest, versions="0-2")
def delete_records(ctx: Context, req: DeleteRecordsRequest) -> DeleteRecordsResponse:
    asked: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in req.topics:
        asked.setdefault(topic.name, {}).update((part.partition_index, part) for part in topic.partitions)
    results = [
        DeleteRecordsTopicResult(name=name, partitions=[_delete(ctx, name, part) for part in parts.values()])
        for name, parts in asked.items()
    ]
    ctx.broker.checkpoint()
    return DeleteRecordsResponse(topics=results)


def _delete(ctx: Context, name: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
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
        start = topics.partition(name, asked.partition_index).delete_records(asked.offset)
    except BrokerError as error:
        return DeleteRecordsPartitionResult(
            partition_index=asked.partition_index, low_watermark=-1, error_code=error.code
        )
    return DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=start)
