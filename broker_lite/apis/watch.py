"""What is measured of requests: for quotas, while somebody has one, and for metrics, while somebody wants them.

A request that took more than its client may is answered at once, with the time that the client owes in it; then the
connection is not served for so long (KIP-219).  A client that believes us waits by itself, and one that does not waits
anyway.

How Kafka differs: a fetch above its quota is answered without records and asked for again; here it has its records.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import anyio

from broker_lite.broker.quotas import FETCH, MUTATION, PRODUCE, REQUEST
from broker_lite.errors import ErrorCode, refusal
from broker_lite.wire.messages.k01_fetch import FetchResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker_lite.apis.registry import Context

R = TypeVar("R")
_PRODUCE_KEY = 0
_MOST_OWED = 3600.0
_EXCEEDED = "The throttling quota has been exceeded."


class _Throttled(Protocol):
    throttle_time_ms: int


def begin(ctx: Context, size: int) -> float:
    """A request of `size` bytes has come in. Seconds that its connection still has to wait."""
    ctx.size = size
    ctx.started = time.perf_counter()
    until = ctx.connection.muted_until
    return max(0.0, until - ctx.broker.clock.monotonic()) if until else 0.0


async def sit_out(ctx: Context, seconds: float) -> None:
    await ctx.broker.clock.wait(anyio.Event(), seconds)
    ctx.started = time.perf_counter()


def timed(handler: Callable[[Context, R], object], ctx: Context, request: R) -> object:
    """Call the handler, and remember how long the loop was busy with it."""
    started = time.perf_counter()
    try:
        return handler(ctx, request)
    finally:
        ctx.busy = time.perf_counter() - started


def end(ctx: Context, key: int, name: str, response: object) -> None:
    """The request is answered: count it, and put what its client owes into the answer."""
    broker = ctx.broker
    if broker.metrics is not None:
        broker.metrics.request(name, size=ctx.size, seconds=time.perf_counter() - ctx.started)
    if not broker.quotas.active:
        return
    user = ctx.connection.principal.removeprefix("User:")
    charge, client = broker.quotas.charge, ctx.client_id
    owed = max(ctx.owed, charge(REQUEST, user, client, ctx.busy * 100))
    if key == _PRODUCE_KEY:
        owed = max(owed, charge(PRODUCE, user, client, ctx.size))
    elif isinstance(response, FetchResponse):
        owed = max(owed, charge(FETCH, user, client, _records_size(response)))
    if owed > 0:
        owed = min(owed, _MOST_OWED)
        ctx.connection.muted_until = broker.clock.monotonic() + owed
        if hasattr(response, "throttle_time_ms"):
            cast("_Throttled", response).throttle_time_ms = int(owed * 1000) or 1


def _records_size(response: FetchResponse) -> int:
    return sum(
        len(part.records) for topic in response.responses for part in topic.partitions if part.records is not None
    )


def mutate(ctx: Context, partitions: int, *, strict_from: int) -> None:
    """Somebody makes or removes so many partitions. THROTTLING_QUOTA_EXCEEDED, if he has made too many (KIP-599).

    Before version `strict_from` he is not refused, he only has to wait afterwards.
    """
    quotas = ctx.broker.quotas
    if not quotas.active:
        return
    user = ctx.connection.principal.removeprefix("User:")
    owed = quotas.owes(MUTATION, user, ctx.client_id)
    if owed > 0 and ctx.version >= strict_from:
        ctx.owed = max(ctx.owed, owed)
        raise refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, _EXCEEDED)
    ctx.owed = max(ctx.owed, quotas.charge(MUTATION, user, ctx.client_id, partitions))
