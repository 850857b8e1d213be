"""InitProducerId: an identity for a producer."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int16, Int32, Int64, String, message, since


@message(key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest:
    """Give me a producer id, or a new epoch for the one I have."""

    transactional_id: String | None
    transaction_timeout_ms: Int32
    producer_id: Int64 = since(3, default=-1)
    producer_epoch: Int16 = since(3, default=-1)
    enable2_pc: Bool = since(6, default=False)
    keep_prepared_txn: Bool = since(6, default=False)


@message(key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse:
    """The producer's id and epoch."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16
    ongoing_txn_producer_id: Int64 = since(6, default=-1)
    ongoing_txn_producer_epoch: Int16 = since(6, default=-1)
