"""Requests that wait for something to happen elsewhere in the broker.

A request parks under the keys that can end its waiting (a partition, a group) with a question, `ready`.
Whoever changes such a thing calls `wake(key)`; the question is asked again about that key, and only a yes lets the
request go on.  So what an append costs does not grow with the number of other partitions that a reader waits for.
Nothing awaits between the last look and the parking, so no wake-up can fall between them: no double check, no lock.
A parked request is a paused coroutine: cancelling its connection takes it out again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

import anyio

from broker_lite.clock import Clock

Ready = Callable[[Hashable | None], bool]
"""Is it time to go on, now that this key has changed? None: now that nothing in particular has."""


class _Parked:
    __slots__ = ("event", "ready")

    def __init__(self, ready: Ready) -> None:
        self.ready = ready
        self.event = anyio.Event()


class Purgatory:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._parked: dict[Hashable, dict[_Parked, None]] = {}

    def __len__(self) -> int:
        return len({parked for under_key in self._parked.values() for parked in under_key})

    async def wait(self, keys: Iterable[Hashable], ready: Ready, *, within: float) -> None:
        """Return once `ready` says yes, now or after a wake-up, or `within` seconds are over."""
        if ready(None):
            return
        parked = _Parked(ready)
        keys = tuple(keys)
        for key in keys:
            self._parked.setdefault(key, {})[parked] = None
        try:
            await self._clock.wait(parked.event, within)
        finally:
            for key in keys:
                waiting = self._parked.get(key)
                if waiting is not None:
                    waiting.pop(parked, None)
                    if not waiting:
                        del self._parked[key]

    def wake(self, key: Hashable) -> None:
        """Something about `key` changed."""
        waiting = self._parked.get(key)
        if waiting:
            for parked in tuple(waiting):
                if not parked.event.is_set() and parked.ready(key):
                    parked.event.set()
