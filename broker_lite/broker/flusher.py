"""Group commit: an acknowledgement in `fsync` mode means that fdatasync has returned.

Each partition with unsynced bytes has at most one sync under way, in a thread.  Whoever waits for an offset is released
by the first sync that began after its append: many producers, one sync.  In the other modes nobody waits here.
"""

from __future__ import annotations

import anyio
import anyio.abc

from broker_lite.broker.purgatory import Purgatory
from broker_lite.broker.threads import in_a_thread
from broker_lite.errors import StorageFailed
from broker_lite.ids import Offset
from broker_lite.log.sync import NotBegun
from broker_lite.logs import get_logger
from broker_lite.partition.partition import Partition

log = get_logger(__name__)


class Flusher:
    def __init__(self, purgatory: Purgatory, tasks: anyio.abc.TaskGroup, *, active: bool) -> None:
        self.active = active
        self._purgatory = purgatory
        self._tasks = tasks
        self._done: dict[Partition, anyio.Event] = {}
        """For each partition being synced: set when the sync under way has ended, one way or the other."""
        self._not_begun: dict[Partition, str] = {}
        """Why the last sync could not even begin, as where descriptors have run out. The next one may."""

    def kick(self, partition: Partition) -> None:
        """Something was appended: see that it reaches the disk soon, whoever waits for it."""
        if self.active and partition not in self._done:
            self._done[partition] = anyio.Event()
            self._tasks.start_soon(self._sync, partition)

    async def durable(self, partition: Partition, upto: Offset) -> None:
        """Return when everything before `upto` is on disk. UnknownTopicOrPartition if its topic is deleted by then."""
        if not self.active:
            return
        while partition.synced_to < upto:
            partition.check_online()
            self.kick(partition)
            await self._done[partition].wait()
            if partition in self._not_begun:
                raise StorageFailed(self._not_begun[partition])
        if partition.log.deleted:
            partition.check_online()

    async def _sync(self, partition: Partition) -> None:
        """To the end, also when the broker stops: a transaction that is being ended cannot be given up half way, and
        waits for it."""
        self._not_begun.pop(partition, None)
        try:
            with anyio.CancelScope(shield=True):
                while (job := partition.unsynced()) is not None:
                    await in_a_thread(job.run)
                    partition.synced(job.upto)
                    self._tell(partition)
        except NotBegun as error:
            log.error("partition.not_synced", partition=str(partition.tp), reason=error.message)
            self._not_begun[partition] = error.message
        except StorageFailed as error:
            log.error("partition.offline", partition=str(partition.tp), reason=str(error))
            partition.go_offline(str(error))
        finally:
            self._done.pop(partition).set()

    def _tell(self, partition: Partition) -> None:
        self._done[partition].set()
        self._done[partition] = anyio.Event()
        self._purgatory.wake(partition.tp)
