"""ListTransactions: transactional ids, filtered by state, holder, age and name.

Versions
    1    by how long the transaction has been open
    2    by a pattern that the whole id fits, in RE2
"""

from __future__ import annotations

from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.broker.responses import units
from broker_lite.coordinator.groups.patterns import matching
from broker_lite.coordinator.txns.state import State, Transaction
from broker_lite.wire.messages.k66_list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

_BY_LABEL = {state.label: state for state in State}


@serves(ListTransactionsRequest, versions="0-2")
def list_transactions(ctx: Context, req: ListTransactionsRequest) -> Steps[ListTransactionsResponse]:
    producers = set(req.producer_id_filters)
    states = {_BY_LABEL[name] for name in req.state_filters if name in _BY_LABEL}
    unknown = [name for name in req.state_filters if name not in _BY_LABEL]
    now_ms = ctx.broker.transactions.now_ms()
    coordinator = ctx.broker.transactions.coordinator
    pattern = req.transactional_id_pattern
    named = matching(pattern, (transaction.id for transaction in coordinator)) if pattern else None
    found: list[TransactionState] = []
    for transaction in list(coordinator):
        if (
            (transaction.state in states or not req.state_filters)
            and (not producers or transaction.producer_id in producers)
            and _is_old_enough(transaction, req.duration_filter, now_ms)
            and (named is None or transaction.id in named)
        ):
            yield units(len(transaction.id))
            found.append(
                TransactionState(
                    transactional_id=transaction.id,
                    producer_id=transaction.producer_id,
                    transaction_state=transaction.state.label,
                )
            )
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)


def _is_old_enough(transaction: Transaction, at_least_ms: int, now_ms: int) -> bool:
    """As in Kafka, an id without a transaction counts as open since 1970."""
    return at_least_ms < 0 or now_ms - transaction.started_ms > at_least_ms
