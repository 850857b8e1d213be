"""The folders of deleted topics go in a thread, a few at a time, while everybody else is served."""

from __future__ import annotations

import anyio

from broker_lite.broker.threads import in_a_thread
from broker_lite.broker.topics import A_FEW, Topics
from broker_lite.errors import StorageFailed
from broker_lite.logs import get_logger

log = get_logger(__name__)


class Removal:
    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._wanted = anyio.Event()
        topics.on_deleted = self.wake

    def wake(self) -> None:
        self._wanted.set()

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            gone = self._topics.deleted
            try:
                while not await in_a_thread(self._topics.clear_away, A_FEW):
                    pass
                self._topics.forget_deleted(gone)
            except StorageFailed as error:
                log.error("topics.not_removed", topics=len(gone), reason=error.message)
