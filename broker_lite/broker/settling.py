"""Where an acknowledgement means that the disk has it, an answer waits until the journal has what it may tell of.

The journal is appended to and applied at once, and synced in a thread: one who makes topics does not hold up the loop.
While a sync is under way every answer waits for it, so nobody hears of a change that a power cut can take back.

Where the operating system's word is enough nobody waits, but the journal goes to disk all the same, a moment later and
before any records do: a topic whose records outlive a power cut has its name, its number of partitions and its
configuration.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.abc

from broker_lite.broker.journal import Journal
from broker_lite.broker.threads import in_a_thread
from broker_lite.clock import Clock
from broker_lite.errors import StorageFailed
from broker_lite.log.sync import NotBegun
from broker_lite.logs import get_logger

log = get_logger(__name__)

AT_LEISURE = 0.1
"""Seconds until a change is synced that nobody waits for: one sync for all that come meanwhile."""


class Settling:
    def __init__(self, journal: Journal, tasks: anyio.abc.TaskGroup, clock: Clock, *, awaited: bool) -> None:
        self._journal = journal
        self._tasks = tasks
        self._clock = clock
        self._awaited = awaited
        self._under_way = False
        self._urgent = anyio.Event()
        self._round = anyio.Event()
        """Set when the sync under way has ended, one way or the other."""
        self._refused = ""
        """Why the last round did not even begin."""
        self.unsettled = False
        """Something is written and not synced, and answers have to wait for it."""
        self.on_failed: Callable[[int, str], None] | None = None
        """Told from where on the journal may be lost, and why."""

    def kick(self) -> None:
        self.unsettled = self._awaited
        if not self._under_way:
            self._under_way = True
            self._tasks.start_soon(self._sync)

    async def settled(self) -> None:
        """Return when everything that is in the journal now is on disk; StorageFailed if the disk refuses."""
        upto = self._journal.end
        while self._journal.synced_to < upto:
            self._journal.check_online()
            self.kick()
            self._urgent.set()
            await self._round.wait()
            if self._refused:
                raise StorageFailed(self._refused)

    async def _sync(self) -> None:
        self._refused = ""
        try:
            if not self._awaited:
                await self._clock.wait(self._urgent, AT_LEISURE)
            while (job := self._journal.unsynced()) is not None:
                await in_a_thread(job.run)
                self._journal.synced(job.upto)
                self._next_round()
        except NotBegun as error:
            log.error("journal.not_synced", reason=error.message)
            self._refused = error.message
        except StorageFailed as error:
            log.error("journal.offline", reason=error.message)
            self._journal.go_offline(error.message)
            if self.on_failed is not None:
                self.on_failed(self._journal.synced_to, error.message)
        finally:
            self._under_way = False
            self.unsettled = self._awaited and self._refused != ""
            self._urgent = anyio.Event()
            self._next_round()

    def _next_round(self) -> None:
        self._round.set()
        self._round = anyio.Event()
