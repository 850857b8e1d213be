"""EndTxn: the end of a transaction."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int16, Int32, Int64, String, message, since


@message(key=26, versions="0-5", flexible="3+")
class EndTxnRequest:
    """Commit or abort the transaction this producer has open."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


@message(key=26, versions="0-5", flexible="3+")
class EndTxnResponse:
    """Whether it ended; from version 5 with the epoch of the next one."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = since(5, default=-1)
    producer_epoch: Int16 = since(5, default=-1)
