"""DescribeTransactions: transactions in detail."""

from __future__ import annotations

from broker_lite.wire.schema import Int16, Int32, Int64, String, message, struct


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    """Describe these transactions."""

    transactional_ids: list[String]


@struct
class TopicData:
    topic: String
    partitions: list[Int32]


@struct
class TransactionState:
    error_code: Int16 = 0
    transactional_id: String
    transaction_state: String
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: list[TopicData]


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    """State, owner and partitions of each."""

    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState]
