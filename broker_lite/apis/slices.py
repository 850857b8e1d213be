"""Long responses in short slices: a handler that may run long lets others go on, and stops where the budget ends.

A handler whose response can be much larger than its request is a generator.  It yields what it is about to add to its
response, in units (`broker/responses.py`), and returns the response.  It changes nothing, so it can be interrupted
wherever it yields; and what it has read before a yield may be old after it, as in every listing.

    @serves(ListThingsRequest, versions="0")
    def list_things(ctx, req):
        for name in req.names:
            yield units(len(name))
            ...
        return ListThingsResponse(...)

A small one runs to its end at once, like any other handler.  One that does not end within a moment is dropped
(`TakesLong`) and begun anew when its turn has come: until then only its frame is kept, so that a thousand clients who
wait cost no more than what they sent.  Then it runs slice by slice, and everybody else in between.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from functools import wraps
from types import GeneratorType
from typing import TYPE_CHECKING, TypeVar

import anyio.lowlevel

from broker_lite.broker.responses import MAX_BYTES, MAX_UNITS, ResponseTooLarge
from broker_lite.wire.codec import encode_in_parts

if TYPE_CHECKING:
    from broker_lite.apis.registry import Context

SLICE_S = 0.005
"""Seconds of work before others get their turn."""
FIRST_S = 0.01
SHORT_UNITS = 2_000
"""What takes no longer than this, and gives no more, is answered at once."""
LARGE_REQUEST = 65_536
"""Bytes. A larger one waits for its turn before it is even decoded."""

R = TypeVar("R")
Steps = Generator[int, None, R]
"""A handler that can be interrupted: yields units, returns the response."""
_FEW_STEPS = range(20)
_IS_GENERATOR = 0x20


class TakesLong(Exception):
    """A request that does not end within a moment. Nothing was changed; it is to be begun anew in its turn."""


def is_stepwise(handler: Callable[..., object]) -> bool:
    """Whether a handler is a generator. `inspect` would know too, and takes 10 ms to import."""
    code = getattr(handler, "__code__", None)
    return code is not None and bool(code.co_flags & _IS_GENERATOR)


def in_slices(handler: Callable[[Context, R], object]) -> Callable[[Context, R], object]:
    """A handler as the registry calls it."""

    @wraps(handler)
    def handle(ctx: Context, request: R) -> object:
        steps = handler(ctx, request)
        if type(steps) is not GeneratorType:
            return steps
        if ctx.has_turn:
            return run(ctx, steps)
        left = SHORT_UNITS
        try:
            for _ in _FEW_STEPS:  # nearly every request ends here, and has not looked at the clock
                left -= next(steps)
                if left < 0:
                    break
            until = time.perf_counter() + FIRST_S
            while left >= 0 and time.perf_counter() < until:
                left -= next(steps)
        except StopIteration as done:
            return done.value
        steps.close()
        raise TakesLong

    return handle


def at_once(steps: Steps[R]) -> R:
    """What the steps return, without a pause."""
    try:
        while True:
            next(steps)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


class Pause:
    """For a handler that changes things one by one, and waits already: others go on between two of them.

    Each change is decided on what is true when it is made; nothing that was read before a pause is believed after it.
    """

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.perf_counter() + SLICE_S

    async def if_due(self) -> None:
        if time.perf_counter() > self._until:
            await anyio.lowlevel.checkpoint()
            self._until = time.perf_counter() + SLICE_S


async def run(ctx: Context, steps: Steps[object]) -> object:
    """What the steps return; ResponseTooLarge as soon as they gave too much."""
    left = MAX_UNITS
    try:
        while True:
            began = time.perf_counter()
            while time.perf_counter() - began < SLICE_S:
                left -= next(steps)
                if left < 0:
                    raise ResponseTooLarge
            ctx.busy += time.perf_counter() - began
            await anyio.lowlevel.checkpoint()
    except StopIteration as done:
        response = done.value
    finally:
        steps.close()
    if isinstance(response, Awaitable):  # for a thread, and others can go on meanwhile
        leave_turn(ctx)
        return await response
    return response


def leave_turn(ctx: Context) -> None:
    if ctx.has_turn:
        ctx.has_turn = False
        ctx.broker.responses.leave()


async def encoded(ctx: Context, response: object) -> list[bytes]:
    """The response's bytes in parts; ResponseTooLarge as soon as they are too many."""
    parts: list[bytes] = []
    size, began = 0, time.perf_counter()
    for part in encode_in_parts(response, ctx.version):
        assert isinstance(part, bytes), f"{type(response).__name__} has records"
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            raise ResponseTooLarge
        if time.perf_counter() - began > SLICE_S:
            ctx.busy += time.perf_counter() - began
            await anyio.lowlevel.checkpoint()
            began = time.perf_counter()
    return parts
