"""ListTransactions: the transactions a broker knows."""

from __future__ import annotations

from broker_lite.wire.schema import Int16, Int32, Int64, String, message, since, struct


@message(key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest:
    """List transactions, filtered by state, producer, age or name."""

    state_filters: list[String]
    producer_id_filters: list[Int64]
    duration_filter: Int64 = since(1, default=-1)
    transactional_id_pattern: String | None = since(2, default=None)


@struct
class TransactionState:
    transactional_id: String
    producer_id: Int64
    transaction_state: String


@message(key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse:
    """The transactions that passed the filters."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String]
    transaction_states: list[TransactionState]
