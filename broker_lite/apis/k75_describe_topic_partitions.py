"""DescribeTopicPartitions: topics and partitions in pages (KIP-966).

Topics come in the order of their names. When the page is full, `next_cursor` names the partition that comes next.
"""

from __future__ import annotations

from broker_lite.apis.authorized import TOPIC_OPERATIONS
from broker_lite.apis.registry import Context, serves
from broker_lite.broker.topics import Topic
from broker_lite.errors import BrokerError, ErrorCode, InvalidRequest
from broker_lite.ids import NO_TOPIC_ID, check_topic_name
from broker_lite.wire.messages.k75_describe_topic_partitions import (
    CursorResult,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

_MOST_A_PAGE = 2000


@serves(DescribeTopicPartitionsRequest, versions="0")
def describe_topic_partitions(ctx: Context, req: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    first, first_partition = _start(req)
    names = {topic.name for topic in req.topics} or {topic.name for topic in ctx.broker.topics}
    left = min(req.response_partition_limit, _MOST_A_PAGE)
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
    if req.response_partition_limit < 1:
        raise InvalidRequest(f"the partition limit must be 1 or more, not {req.response_partition_limit}")
    if req.cursor is None:
        return "", 0
    if req.cursor.partition_index < 0:
        raise InvalidRequest(f"the cursor's partition must be 0 or more, not {req.cursor.partition_index}")
    return req.cursor.topic_name, req.cursor.partition_index


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except BrokerError as error:
        code = error.code
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
