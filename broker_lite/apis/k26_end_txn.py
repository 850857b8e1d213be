"""EndTxn: commit or abort a producer's open transaction.

Versions
    0-1  say INVALID_PRODUCER_EPOCH where 2+ say PRODUCER_FENCED
    3    flexible
    4    errors that an abort heals
    5    every transaction raises the epoch and returns it (KIP-890)
"""

from __future__ import annotations

from broker_lite.apis.registry import Context, serves
from broker_lite.coordinator.txns.coordinator import Producer
from broker_lite.coordinator.txns.state import BUMPING
from broker_lite.errors import ErrorCode
from broker_lite.wire.messages.k26_end_txn import EndTxnRequest, EndTxnResponse

_FIRST_THAT_BUMPS = 5


@serves(EndTxnRequest, versions="0-5", older={ErrorCode.PRODUCER_FENCED: (2, ErrorCode.INVALID_PRODUCER_EPOCH)})
async def end_txn(ctx: Context, req: EndTxnRequest) -> EndTxnResponse:
    following = await ctx.broker.transactions.end(
        req.transactional_id,
        Producer(req.producer_id, req.producer_epoch),
        commit=req.committed,
        version=BUMPING if ctx.version >= _FIRST_THAT_BUMPS else 0,
    )
    return EndTxnResponse(producer_id=following.id, producer_epoch=following.epoch)
