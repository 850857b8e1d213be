"""AddOffsetsToTxn: offsets as part of a transaction."""

from __future__ import annotations

from broker_lite.wire.schema import Int16, Int32, Int64, String, message


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    """Enlist the offsets of this group."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    """Whether the group is enlisted."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
