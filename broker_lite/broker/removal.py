"""The folders of deleted topics go in a thread, a few at a time, while everybody else is served.

First the deletion itself has to be on disk: a power cut must not leave the topic without its records.
The checkpoints of offsets name partitions, not topics.  So they are written without a deleted topic before the journal
forgets it: a new topic of its name would else start where the old one did, and lose its first records.  Until then a
start believes no checkpoint of that name, so whoever needs one to be believed waits for `finished`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from broker_lite.broker.threads import in_a_thread
from broker_lite.broker.topics import A_FEW
from broker_lite.errors import StorageFailed
from broker_lite.ids import TopicId
from broker_lite.logs import get_logger

if TYPE_CHECKING:
    from broker_lite.broker.broker import Broker

log = get_logger(__name__)

AGAIN_AFTER = 10.0
"""Seconds, where the disk refuses."""


class Removal:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._wanted = anyio.Event()
        self._ended = anyio.Event()
        """Set when the round under way, or the next one, is over."""
        self._refused = ""
        broker.topics.on_deleted = self.wake

    def wake(self) -> None:
        self._wanted.set()

    async def finished(self, name: str) -> None:
        """Return when nothing is left of deleted topics of that name. StorageFailed: the disk refuses."""
        while self._broker.topics.is_being_deleted(name, None):
            self.wake()
            await self._ended.wait()
            if self._refused:
                raise StorageFailed(f"a deleted topic {name} cannot be removed: {self._refused}")

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            gone = self._broker.topics.deleted
            self._refused = ""
            try:
                await self._remove(gone)
            except (StorageFailed, OSError) as error:
                self._refused = str(error)
                log.error("topics.not_removed", topics=len(gone), reason=self._refused)
            self._ended.set()
            self._ended = anyio.Event()
            if self._refused:
                await self._broker.clock.wait(self._wanted, AGAIN_AFTER)
                self.wake()

    async def _remove(self, gone: Sequence[TopicId]) -> None:
        topics = self._broker.topics
        await self._broker.settling.settled()
        while not topics.move_away(A_FEW):
            await anyio.lowlevel.checkpoint()
        await self._broker.log_starts.rewrite()
        await in_a_thread(self._broker.folder.checkpoint_later(topics.open_partitions()))
        while not await in_a_thread(topics.clear_away, A_FEW):
            pass
        topics.forget_deleted(gone)
