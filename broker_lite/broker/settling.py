"""Where an acknowledgement means that the disk has it, an answer waits until the journal has what it may tell of.

The journal is appended to and applied at once, and synced in a thread: one who makes topics does not hold up the loop.
While a sync is under way every answer waits for it, so nobody hears of a change that a power cut can take back.
In the other modes nobody waits.
"""

from __future__ import annotations

import anyio
import anyio.abc
import anyio.to_thread
import structlog

from broker_lite.broker.journal import Journal
from broker_lite.errors import StorageFailed

log = structlog.get_logger()


class Settling:
    def __init__(self, journal: Journal, tasks: anyio.abc.TaskGroup) -> None:
        self._journal = journal
        self._tasks = tasks
        self._round = anyio.Event()
        """Set when the sync under way has ended, one way or the other."""
        self.unsettled = False
        """Something is written and not synced."""

    def kick(self) -> None:
        if not self.unsettled:
            self.unsettled = True
            self._tasks.start_soon(self._sync)

    async def settled(self) -> None:
        """Return when everything that is in the journal now is on disk; StorageFailed if it never will be."""
        upto = self._journal.end
        while self._journal.synced_to < upto:
            self._journal.check_online()
            await self._round.wait()

    async def _sync(self) -> None:
        try:
            while (job := self._journal.unsynced()) is not None:
                await anyio.to_thread.run_sync(job.run)
                self._journal.synced(job.upto)
                self._next_round()
        except StorageFailed as error:
            log.error("journal.offline", reason=error.message)
            self._journal.go_offline(error.message)
        finally:
            self.unsettled = False
            self._next_round()

    def _next_round(self) -> None:
        self._round.set()
        self._round = anyio.Event()
