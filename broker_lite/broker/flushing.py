"""Sealed segments go to the platter at leisure, one partition after the other, so that the recovery point advances.

Where an acknowledgement does not wait for the disk, the kernel writes when it likes and nobody knows how far it came;
after a crash everything since the recovery point is read again.  So a segment is synced once it is sealed, in a thread,
and the recovery point moves on, at last to where the active one begins: all that a restart then has to look at.

The journal goes first: records that outlive a power cut belong to a topic that does, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from broker_lite.broker.threads import in_a_thread
from broker_lite.errors import StorageFailed
from broker_lite.ids import TopicPartition
from broker_lite.log.sync import NotBegun
from broker_lite.logs import get_logger
from broker_lite.partition.partition import Partition

log = get_logger(__name__)


class SealedSync:
    def __init__(self, journal_settled: Callable[[], Awaitable[None]]) -> None:
        self._journal_settled = journal_settled
        self._waiting: dict[TopicPartition, Partition] = {}
        self._wanted = anyio.Event()

    def look(self, partition: Partition) -> None:
        """Upkeep comes by: is there something to do?"""
        if partition.log.has_unsynced_sealed:
            self._waiting[partition.tp] = partition
            self._wanted.set()

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            while self._waiting:
                await self._sync(self._waiting.pop(next(iter(self._waiting))))

    async def _sync(self, partition: Partition) -> None:
        try:
            await self._journal_settled()
        except StorageFailed:
            return  # the journal has told about it
        try:
            job = partition.log.unflushed(sealed=True)
            if job is None:
                return
            await in_a_thread(job.run)
        except NotBegun as error:  # upkeep comes by again
            log.error("partition.not_synced", partition=str(partition.tp), reason=error.message)
        except StorageFailed as error:
            log.error("partition.offline", partition=str(partition.tp), reason=error.message)
            partition.go_offline(error.message)
        else:
            partition.synced(job.upto)
            self.look(partition)  # the others first
