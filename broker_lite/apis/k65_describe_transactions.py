"""DescribeTransactions: state, holder and partitions of transactional ids."""

from __future__ import annotations

from broker_lite.apis.registry import Context, serves
from broker_lite.errors import BrokerError
from broker_lite.wire.messages.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


@serves(DescribeTransactionsRequest, versions="0")
def describe_transactions(ctx: Context, req: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(transaction_states=[_describe(ctx, name) for name in req.transactional_ids])


def _describe(ctx: Context, name: str) -> TransactionState:
    answer = TransactionState(
        transactional_id=name,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )
    try:
        transaction = ctx.broker.transactions.coordinator.get(name)
    except BrokerError as error:
        answer.error_code = error.code
        return answer
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(partition)
    answer.transaction_state = transaction.state.label
    answer.transaction_timeout_ms = transaction.timeout_ms
    answer.transaction_start_time_ms = transaction.started_ms
    answer.producer_id = transaction.producer_id
    answer.producer_epoch = transaction.epoch
    answer.topics = [TopicData(topic=topic, partitions=partitions) for topic, partitions in by_topic.items()]
    return answer
