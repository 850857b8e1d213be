"""DescribeTransactions: state, holder and partitions of transactional ids."""

from __future__ import annotations

from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.broker.responses import units
from broker_lite.errors import BrokerError
from broker_lite.wire.messages.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


@serves(DescribeTransactionsRequest, versions="0")
def describe_transactions(ctx: Context, req: DescribeTransactionsRequest) -> Steps[DescribeTransactionsResponse]:
    """An id that is asked for again is told again, as Kafka does, but looked up once."""
    found: dict[str, TransactionState] = {}
    states: list[TransactionState] = []
    for name in req.transactional_ids:
        state = found[name] = found.get(name) or _describe(ctx, name)
        yield units(len(name)) + sum(units(len(one.topic) + 4 * len(one.partitions)) for one in state.topics)
        states.append(state)
    return DescribeTransactionsResponse(transaction_states=states)


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
