"""DescribeTopicPartitions: topics and partitions in pages (KIP-966).

Topics come in the order of their names. When the page is full, `next_cursor` names the partition that comes next.
"""

from __future__ import annotations

from broker_lite.apis.authorized import TOPIC_OPERATIONS
from broker_lite.apis.registry import Context, serves
from broker_lite.broker.topics import Topic
from broker_lite.config import broker as keys
from broker_lite.errors import BrokerError, ErrorCode, InvalidRequest
from broker_lite.ids import NO_TOPIC_ID, check_topic_name
from broker_lite.wire.messages.k75_describe_topic_partitions import (
    CursorResult,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


def _refuse_all(
    ctx: Context, req: DescribeTopicPartitionsRequest, error: BrokerError
) -> DescribeTopicPartitionsResponse:
    """There is no place for an error but beside each topic."""
    return DescribeTopicPartitionsResponse(topics=[_refused(topic.name, error.code) for topic in req.topics])


@serves(DescribeTopicPartitionsRequest, versions="0", refuse=_refuse_all)
def describe_topic_partitions(ctx: Context, req: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    names = {topic.name for topic in req.topics} or {topic.name for topic in ctx.broker.topics}
    first, first_partition = _start(req)
    most = ctx.broker.settings.get(keys.MAX_REQUEST_PARTITION_SIZE_LIMIT)
    left = max(1, min(req.response_partition_limit, most))
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in sorted(name for name in names if name >= first):
        topic = ctx.broker.topics.get(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        if left == 0:
            response.next_cursor = _cursor(name, 0)
            break
        begin = first_partition if name == first else 0
        end = min(topic.partition_count, begin + left)
        response.topics.append(_describe(ctx, topic, begin, end))
        left -= max(0, end - begin)
        if end < topic.partition_count:
            response.next_cursor = _cursor(name, end)
            break
    return response


def _start(req: DescribeTopicPartitionsRequest) -> tuple[str, int]:
    """Where the cursor points: to a topic that was asked for, if any was."""
    cursor = req.cursor
    if cursor is None:
        return "", 0
    if req.topics and cursor.topic_name not in {topic.name for topic in req.topics}:
        raise InvalidRequest(f"the cursor's topic {cursor.topic_name[:249]!r} is not among those asked for")
    if cursor.partition_index < 0:
        raise InvalidRequest(f"the cursor's partition must be 0 or more, not {cursor.partition_index}")
    return cursor.topic_name, cursor.partition_index


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except BrokerError as error:
        code = error.code
    answer = _refused(name, code)
    answer.topic_authorized_operations = TOPIC_OPERATIONS
    return answer


def _refused(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name, topic_id=NO_TOPIC_ID, partitions=[])


def _cursor(name: str, partition: int) -> CursorResult:
    return CursorResult(topic_name=name, partition_index=partition)


def _describe(ctx: Context, topic: Topic, begin: int, end: int) -> DescribeTopicPartitionsResponseTopic:
    node = ctx.broker.node_id
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=node,
                leader_epoch=ctx.broker.topics.leader_epoch(topic, index),
                replica_nodes=[node],
                isr_nodes=[node],
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=[],
            )
            for index in range(begin, end)
        ],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
