"""AddPartitionsToTxn: make partitions part of a transaction before the first record goes there.

Versions
    0-1  say INVALID_PRODUCER_EPOCH where 2+ say PRODUCER_FENCED
    3    flexible
    4    brokers ask for many transactions at once, or only whether a partition is in one
    5    errors that an abort heals (KIP-890)
"""

from __future__ import annotations

from collections.abc import Callable

from broker_lite.apis.registry import Context, serves
from broker_lite.coordinator.txns.coordinator import Producer
from broker_lite.errors import BrokerError, ErrorCode
from broker_lite.ids import INTERNAL_TOPICS, TopicPartition
from broker_lite.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

_FIRST_WITH_MANY = 4


@serves(
    AddPartitionsToTxnRequest,
    versions="0-5",
    older={ErrorCode.PRODUCER_FENCED: (2, ErrorCode.INVALID_PRODUCER_EPOCH)},
)
async def add_partitions_to_txn(ctx: Context, req: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    if ctx.version >= _FIRST_WITH_MANY:
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id, topic_results=await _add(ctx, transaction)
                )
                for transaction in req.transactions
            ]
        )
    one = AddPartitionsToTxnTransaction(
        transactional_id=req.v3_and_below_transactional_id,
        producer_id=req.v3_and_below_producer_id,
        producer_epoch=req.v3_and_below_producer_epoch,
        topics=req.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await _add(ctx, one))


async def _add(ctx: Context, asked: AddPartitionsToTxnTransaction) -> list[AddPartitionsToTxnTopicResult]:
    refused = _refused(ctx, asked.topics)
    if refused:
        # One that cannot be added keeps all the others out.
        return _results(asked.topics, lambda tp: refused.get(tp, ErrorCode.OPERATION_NOT_ATTEMPTED))
    producer = Producer(asked.producer_id, asked.producer_epoch)
    partitions = [TopicPartition(topic.name, index) for topic in asked.topics for index in topic.partitions]
    if asked.verify_only:
        once = [
            AddPartitionsToTxnTopic(name=t.name, partitions=list(dict.fromkeys(t.partitions))) for t in asked.topics
        ]
        return _results(once, lambda tp: _verify(ctx, asked.transactional_id, producer, tp))
    code = ErrorCode.NONE
    try:
        await ctx.broker.transactions.add_partitions(asked.transactional_id, producer, partitions)
    except BrokerError as error:
        code = ctx.code(error)
    return _results(asked.topics, lambda tp: code)


def _refused(ctx: Context, topics: list[AddPartitionsToTxnTopic]) -> dict[TopicPartition, ErrorCode]:
    """What does not exist, and what only brokers may write to."""
    found: dict[TopicPartition, ErrorCode] = {}
    for topic in topics:
        known = ctx.broker.topics.get(topic.name)
        count = 0 if known is None else known.partition_count
        for index in topic.partitions:
            if topic.name in INTERNAL_TOPICS and ctx.version < _FIRST_WITH_MANY:
                found[TopicPartition(topic.name, index)] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif not 0 <= index < count:
                found[TopicPartition(topic.name, index)] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return found


def _verify(ctx: Context, transactional_id: str, producer: Producer, tp: TopicPartition) -> ErrorCode:
    try:
        ctx.broker.transactions.coordinator.verify(transactional_id, producer, tp)
    except BrokerError as error:
        return ctx.code(error)
    return ErrorCode.NONE


def _results(
    topics: list[AddPartitionsToTxnTopic], code_of: Callable[[TopicPartition], ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=code_of(TopicPartition(topic.name, index))
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
