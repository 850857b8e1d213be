"""Topics that somebody asked for by name are made behind the answer, a moment later.

A real broker hands the wish to its controller and says that there is no such topic; whoever asks again finds it. Some
clients count on that: one that asks a second time while it joins its group, and then watches for partitions to appear,
must not find them there already, or it would never see a change (segmentio/kafka-go). The moment is just shorter than
the 100 ms, give or take a fifth, after which everybody else asks again.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.abc

from broker_lite.clock import Clock
from broker_lite.errors import BrokerError
from broker_lite.logs import get_logger

log = get_logger(__name__)

A_MOMENT = 0.08
"""Seconds; a controller takes about as long."""
MOST_TOPICS = 10_000
"""Beyond these a topic has to be created on purpose."""


class Creating:
    def __init__(
        self, tasks: anyio.abc.TaskGroup, clock: Clock, create: Callable[[str], object], topics: Callable[[], int]
    ) -> None:
        self._tasks = tasks
        self._clock = clock
        self._create = create
        self._topics = topics
        """How many there are."""
        self._is_full = False
        self._wanted: dict[str, float] = {}
        """When each is due; who asked first comes first."""

    def soon(self, name: str) -> None:
        if name in self._wanted or self._full(name):
            return
        if not self._wanted:
            self._tasks.start_soon(self._run)
        self._wanted[name] = self._clock.monotonic() + A_MOMENT

    def _full(self, name: str) -> bool:
        """Names cost a client nothing, topics cost us; that there are too many is said once."""
        was, self._is_full = self._is_full, self._topics() + len(self._wanted) >= MOST_TOPICS
        if self._is_full and not was:
            log.warning("topic.not_auto_created", topic=name, reason=f"there are {MOST_TOPICS} topics already")
        return self._is_full

    async def _run(self) -> None:
        never = anyio.Event()
        while self._wanted:
            name, due = next(iter(self._wanted.items()))
            await self._clock.wait(never, due - self._clock.monotonic())
            try:
                self._create(name)
            except BrokerError as error:
                log.warning("topic.not_auto_created", topic=name, reason=error.message)
            del self._wanted[name]
