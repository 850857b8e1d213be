"""OffsetForLeaderEpoch: where a leader epoch ended, so that a reader can see whether its log was cut.

Versions
    2    the reader's own leader epoch is checked
    3    consumers may ask
    4    flexible
"""

from __future__ import annotations

from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.broker.responses import units
from broker_lite.errors import BrokerError
from broker_lite.wire.messages.k23_offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


@serves(OffsetForLeaderEpochRequest, versions="2-4")
def offset_for_leader_epoch(ctx: Context, req: OffsetForLeaderEpochRequest) -> Steps[OffsetForLeaderEpochResponse]:
    topics: list[OffsetForLeaderTopicResult] = []
    for topic in req.topics:
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=[]))
        yield units(len(topic.topic))
        for asked in topic.partitions:
            yield 1
            topics[-1].partitions.append(_answer(ctx, topic.topic, asked))
    return OffsetForLeaderEpochResponse(topics=topics)


def _answer(ctx: Context, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition)
    try:
        partition = ctx.broker.topics.partition(topic, asked.partition)
        partition.check_leader_epoch(asked.current_leader_epoch)
        answer.leader_epoch, answer.end_offset = partition.end_offset_for(asked.leader_epoch)
    except BrokerError as error:
        answer.error_code = error.code
    return answer
