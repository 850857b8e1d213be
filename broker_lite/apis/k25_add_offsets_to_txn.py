"""AddOffsetsToTxn: make a group's offsets part of a transaction.

Versions
    0-1  say INVALID_PRODUCER_EPOCH where 2+ say PRODUCER_FENCED
    3    flexible
    4    errors that an abort heals (KIP-890)
"""

from __future__ import annotations

from broker_lite.apis.registry import Context, serves
from broker_lite.coordinator.txns.coordinator import Producer
from broker_lite.errors import ErrorCode
from broker_lite.wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


@serves(
    AddOffsetsToTxnRequest,
    versions="0-4",
    older={ErrorCode.PRODUCER_FENCED: (2, ErrorCode.INVALID_PRODUCER_EPOCH)},
)
async def add_offsets_to_txn(ctx: Context, req: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    producer = Producer(req.producer_id, req.producer_epoch)
    await ctx.broker.transactions.add_offsets(req.transactional_id, producer, req.group_id)
    return AddOffsetsToTxnResponse()
