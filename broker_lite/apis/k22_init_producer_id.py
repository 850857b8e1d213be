"""InitProducerId: an identity for a producer that wants each record written once.

Versions
    2    flexible
    3    a producer that lost its way asks for a new epoch (KIP-360)
    4    PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH
    5    transactional errors that an abort heals (KIP-890)
"""

from __future__ import annotations

from collections.abc import Awaitable

from broker_lite.apis.registry import Context, serves
from broker_lite.coordinator.txns.coordinator import Producer
from broker_lite.errors import ErrorCode, InvalidRequest
from broker_lite.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse


@serves(
    InitProducerIdRequest,
    versions="0-5",
    older={ErrorCode.PRODUCER_FENCED: (4, ErrorCode.INVALID_PRODUCER_EPOCH)},
    refuse=lambda ctx, req, error: InitProducerIdResponse(error_code=ctx.code(error), producer_epoch=-1),
)
def init_producer_id(
    ctx: Context, req: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if (req.producer_id == -1) != (req.producer_epoch == -1):
        raise InvalidRequest(
            f"producer id {req.producer_id} and epoch {req.producer_epoch} come together or not at all"
        )
    if req.transactional_id is None:
        return InitProducerIdResponse(producer_id=ctx.broker.producer_ids.new(), producer_epoch=0)
    return _transactional(ctx, req, req.transactional_id)


async def _transactional(ctx: Context, req: InitProducerIdRequest, transactional_id: str) -> InitProducerIdResponse:
    given = None if req.producer_id == -1 else Producer(req.producer_id, req.producer_epoch)
    producer = await ctx.broker.transactions.init(transactional_id, req.transaction_timeout_ms, given)
    return InitProducerIdResponse(producer_id=producer.id, producer_epoch=producer.epoch)
