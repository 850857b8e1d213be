"""Time, told by one object, so that a test can tell another one.

`now_ms` is the wall clock: it goes into records and may jump.
`monotonic` measures how long something took or may take: it never jumps.
`wait` is the only way to wait for a while; everything else waits for an event.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import anyio


class Clock(Protocol):
    def now_ms(self) -> int: ...

    def monotonic(self) -> float: ...

    async def wait(self, event: anyio.Event, within: float) -> None:
        """Return when `event` is set or `within` seconds are over, whichever comes first."""
        ...


def alarm(seconds: float) -> Callable[[], bool]:
    """Whether so many seconds have passed from now: for work in a thread, whose time is always real."""
    over = time.monotonic() + seconds
    return lambda: time.monotonic() > over


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def wait(self, event: anyio.Event, within: float) -> None:
        with anyio.move_on_after(within):
            await event.wait()


class ManualClock:
    """Stands still until told to move. For tests and simulations."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic = 1000.0
        self._waiting: dict[anyio.Event, float] = {}

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        self._now_ms += round(seconds * 1000)
        self._monotonic += seconds
        for over in [over for over, until in self._waiting.items() if until <= self._monotonic]:
            del self._waiting[over]
            over.set()

    def jump_wall(self, seconds: float) -> None:
        """Somebody set the wall clock; no time has passed."""
        self._now_ms += round(seconds * 1000)

    async def wait(self, event: anyio.Event, within: float) -> None:
        if event.is_set() or within <= 0:
            return
        over = anyio.Event()
        self._waiting[over] = self._monotonic + within

        async def watch(what: anyio.Event) -> None:
            await what.wait()
            group.cancel_scope.cancel()

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(watch, event)
                group.start_soon(watch, over)
        finally:
            self._waiting.pop(over, None)
