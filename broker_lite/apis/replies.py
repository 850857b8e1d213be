"""From what a handler gave to the bytes of the reply: at once, after a wait, or in turn with others that take long.

Whatever goes wrong on the way becomes a response too (`refused`), or closes the connection (`Malformed`).
"""

from __future__ import annotations

from collections.abc import Awaitable
from enum import Enum
from typing import TYPE_CHECKING, Final

from broker_lite.apis import mirror, watch
from broker_lite.apis.routes import Handler, Route
from broker_lite.apis.slices import TakesLong, encoded, leave_turn, run
from broker_lite.broker.responses import ResponseTooLarge
from broker_lite.errors import BrokerError, ErrorCode, Malformed, refusal
from broker_lite.logs import get_logger
from broker_lite.wire.codec import Piece, decode, encode

if TYPE_CHECKING:
    from broker_lite.apis.registry import Context

log = get_logger(__name__)

Answer = list[Piece] | None
"""A reply with its size and header, ready for the socket; None is no reply."""


class NoReply(Enum):
    NO_REPLY = "no reply"


NO_REPLY: Final = NoReply.NO_REPLY
"""What a handler returns when the client does not wait for an answer (acks=0)."""


class NoPlace(Malformed):
    """An error that a response cannot say, because the request named nothing of which it could be said."""


_UNEXPECTED = "The server experienced an unexpected error when processing the request."


async def now(response: object) -> object:
    return response


async def awaited(route: Route, ctx: Context, request: object, waits: Awaitable[object]) -> Answer:
    try:
        response = await waits
        if ctx.broker.settling.unsettled:
            await ctx.broker.settling.settled()
        return reply(route, ctx, response)
    except Malformed:
        raise
    except Exception as error:
        return reply(route, ctx, refused(route, ctx, request, error))


async def later(route: Route, ctx: Context, frame: memoryview, pos: int, seconds: float) -> Answer:
    """The connection has to be silent for a while, so we do not hear it; then its request is decoded again, for until
    then only its bytes are paid for."""
    await watch.sit_out(ctx, seconds)
    request = _decoded(route, frame, pos)
    try:
        response = watch.timed(_handler(route, ctx), ctx, request)
    except TakesLong:
        return await in_turn(route, ctx, frame, pos)
    except Malformed:
        raise
    except Exception as error:
        return reply(route, ctx, refused(route, ctx, request, error))
    return await awaited(route, ctx, request, response if isinstance(response, Awaitable) else now(response))


async def large(route: Route, ctx: Context, frame: memoryview, pos: int) -> Answer:
    """A request that is large and may take long."""
    if ctx.broker.quotas.active or ctx.broker.metrics is not None:
        seconds = watch.begin(ctx, len(frame))
        if seconds > 0:
            await watch.sit_out(ctx, seconds)
    return await in_turn(route, ctx, frame, pos)


async def in_turn(route: Route, ctx: Context, frame: memoryview, pos: int) -> Answer:
    """A request that takes long, from the beginning: one at a time, and everybody else in between."""
    await ctx.broker.responses.enter()
    ctx.has_turn = True
    try:
        return await _long(route, ctx, _decoded(route, frame, pos), len(frame))
    finally:
        leave_turn(ctx)


async def _long(route: Route, ctx: Context, request: object, size: int) -> Answer:
    try:
        response = _handler(route, ctx)(ctx, request)
        if isinstance(response, Awaitable):
            response = await response
        if ctx.broker.settling.unsettled:
            await ctx.broker.settling.settled()
        if ctx.broker.quotas.active or ctx.broker.metrics is not None:
            watch.end(ctx, route.served.key, route.served.name, response)
        return written(route, ctx, response) if ctx.kept else _held(route, ctx, await encoded(ctx, response))
    except Malformed:
        raise
    except ResponseTooLarge as error:
        _complain(route, ctx, size)
        return _held(route, ctx, await encoded(ctx, await _refused_long(route, ctx, request, error)))
    except Exception as error:
        return reply(route, ctx, refused(route, ctx, request, error))


async def _refused_long(route: Route, ctx: Context, request: object, error: BrokerError) -> object:
    """As `refused`, for a request that named so much that to refuse it takes long too."""
    served = route.served
    if served.refuse is not None:
        return served.refuse(ctx, request, error)
    steps = mirror.refused_stepwise(request, served.response, ctx.version, ctx.code(error), error.message)
    response = await run(ctx, steps)
    if response is None:
        raise _no_place(route, error)
    return response


def _no_place(route: Route, error: BrokerError) -> NoPlace:
    return NoPlace(f"{route.served.name} has no place for {error.code.name}: {error.message}")


def _handler(route: Route, ctx: Context) -> Handler[object]:
    return route.permitted if ctx.broker.acls.on else route.handler


def _decoded(route: Route, frame: memoryview, pos: int) -> object:
    request: object
    request, _ = decode(route.request, route.version, frame, pos)
    return request


def reply(route: Route, ctx: Context, response: object) -> Answer:
    """Every request passes here: answered, about to be written."""
    if ctx.broker.quotas.active or ctx.broker.metrics is not None:
        watch.end(ctx, route.served.key, route.served.name, response)
    return None if response is NO_REPLY else written(route, ctx, response)


def _held(route: Route, ctx: Context, parts: list[bytes]) -> Answer:
    """A long response: its bytes count until the client has read them."""
    size = route.header_size + sum(map(len, parts))
    if ctx.size and ctx.broker.metrics is not None:
        ctx.broker.metrics.of(route.served.name).sent += size + 4
    return [route.pack_header(size, ctx.correlation_id), *ctx.broker.responses.hold(parts)]


def written(route: Route, ctx: Context, response: object) -> Answer:
    pieces = encode(response, route.version) if ctx.kept is None else list(ctx.kept)
    size = route.header_size + sum(map(len, pieces))
    first = pieces[0]
    assert isinstance(first, bytes), f"{route.served.name} does not start with its own bytes"
    pieces[0] = route.pack_header(size, ctx.correlation_id) + first
    if ctx.size and ctx.broker.metrics is not None:
        ctx.broker.metrics.of(route.served.name).sent += size + 4
    return pieces


def refused(route: Route, ctx: Context, request: object, error: Exception) -> object:
    """The response that says so."""
    served = route.served
    if not isinstance(error, BrokerError):
        log.error(
            "request.failed",
            api=served.name,
            version=ctx.version,
            correlation_id=ctx.correlation_id,
            client_id=ascii(ctx.client_id[:64]),
            peer=ctx.connection.peer,
            exc_info=error,
        )
        error = refusal(ErrorCode.UNKNOWN_SERVER_ERROR, _UNEXPECTED)
    if served.refuse is not None:
        return served.refuse(ctx, request, error)
    response = mirror.refused(request, served.response, ctx.version, ctx.code(error), error.message)
    if response is None:
        raise _no_place(route, error)
    return response


def _complain(route: Route, ctx: Context, size: int) -> None:
    """One line a minute: who does this once does it again."""
    if ctx.broker.responses.may_log(ctx.broker.clock.monotonic()):
        log.info(
            "response.too_large",
            api=route.served.name,
            request_bytes=size,
            client_id=ascii(ctx.client_id[:64]),
            peer=ctx.connection.peer,
        )
