"""DescribeProducers: who has written to a partition, and whose transaction is open there."""

from __future__ import annotations

from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.broker.responses import units
from broker_lite.errors import BrokerError
from broker_lite.ids import check_topic_name
from broker_lite.wire.messages.k61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


@serves(DescribeProducersRequest, versions="0")
def describe_producers(ctx: Context, req: DescribeProducersRequest) -> Steps[DescribeProducersResponse]:
    topics: list[TopicResponse] = []
    for topic in req.topics:
        topics.append(TopicResponse(name=topic.name, partitions=[]))
        yield units(len(topic.name))
        for index in topic.partition_indexes:
            partition = _describe(ctx, topic.name, index)
            yield 1 + len(partition.active_producers)
            topics[-1].partitions.append(partition)
    return DescribeProducersResponse(topics=topics)


def _describe(ctx: Context, topic: str, index: int) -> PartitionResponse:
    answer = PartitionResponse(partition_index=index, active_producers=[])
    try:
        partition = ctx.broker.topics.partition(check_topic_name(topic), index)
    except BrokerError as error:
        answer.error_code, answer.error_message = error.code, error.message
        return answer
    answer.active_producers = [
        ProducerState(
            producer_id=state.producer_id,
            producer_epoch=state.epoch,
            last_sequence=state.last_sequence,
            last_timestamp=state.last_timestamp,
            coordinator_epoch=state.coordinator_epoch,
            current_txn_start_offset=state.txn_start_offset,
        )
        for state in partition.describe_producers()
    ]
    return answer
