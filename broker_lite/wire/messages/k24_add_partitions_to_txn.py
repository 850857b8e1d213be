"""AddPartitionsToTxn: partitions that a transaction will write."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int16, Int32, Int64, String, field, message, since, struct


@struct
class AddPartitionsToTxnTopic:
    name: String
    partitions: list[Int32]


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = False
    topics: list[AddPartitionsToTxnTopic]


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    """Enlist these partitions; from version 4 brokers ask for many transactions at once."""

    transactions: list[AddPartitionsToTxnTransaction] = since(4, default=[])
    v3_and_below_transactional_id: String = field(versions="0-3", default="")
    v3_and_below_producer_id: Int64 = field(versions="0-3", default=0)
    v3_and_below_producer_epoch: Int16 = field(versions="0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(versions="0-3", default=[])


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: Int32
    partition_error_code: Int16


@struct
class AddPartitionsToTxnTopicResult:
    name: String
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


@struct
class AddPartitionsToTxnResult:
    transactional_id: String
    topic_results: list[AddPartitionsToTxnTopicResult]


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    """Per partition whether it is enlisted."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(4, default=0)
    results_by_transaction: list[AddPartitionsToTxnResult] = since(4, default=[])
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(versions="0-3", default=[])
