"""DeleteRecords: a log starts later only once that is on disk.

All log starts are one file, `log-start-offset-checkpoint`, so one write moves the starts of many partitions.  It is a
thread's work, and one at a time: whoever comes meanwhile is part of the next write.  While one is under way nobody else
writes that file, because only this one knows what it is about to say.  If the disk refuses, nothing has moved, in
memory or on disk.

What was decided before the write is still right after it: a high watermark never falls, and a start that has moved
further meanwhile stays there.  A topic that was deleted meanwhile has no line in the next write.
"""

from __future__ import annotations

from collections.abc import Mapping

import anyio
import anyio.abc

from broker_lite.broker.data_folder import DataFolder
from broker_lite.broker.threads import in_a_thread
from broker_lite.broker.topics import Topics
from broker_lite.errors import StorageFailed
from broker_lite.ids import Offset
from broker_lite.logs import get_logger
from broker_lite.partition.partition import Partition

log = get_logger(__name__)


class _Write:
    """One write of the checkpoint, and who waits for it."""

    def __init__(self, *, sync: bool) -> None:
        self.sync = sync
        self.starts: dict[Partition, Offset] = {}
        self.done = anyio.Event()
        self.refused = "the broker is stopping"


class LogStarts:
    def __init__(self, folder: DataFolder, topics: Topics, tasks: anyio.abc.TaskGroup, *, sync: bool) -> None:
        self._folder = folder
        self._topics = topics
        self._tasks = tasks
        self._sync = sync
        self._under_way = False
        self._next: _Write | None = None

    async def move(self, starts: Mapping[Partition, Offset]) -> None:
        """The logs start there, or later. StorageFailed: the disk refuses, and none of them has moved."""
        write = self._upcoming()
        for partition, start in starts.items():
            write.starts[partition] = max(start, write.starts.get(partition, start))
        await self._written(write)

    async def rewrite(self) -> None:
        """The file names no partition that is gone, and is on the platter."""
        write = self._upcoming()
        write.sync = True
        await self._written(write)

    def _upcoming(self) -> _Write:
        if self._next is None:
            self._next = _Write(sync=self._sync)
        return self._next

    async def _written(self, write: _Write) -> None:
        if not self._under_way:
            self._under_way = True
            self._tasks.start_soon(self._run)
        await write.done.wait()
        if write.refused:
            raise StorageFailed(write.refused)

    async def _run(self) -> None:
        try:
            while (write := self._next) is not None:
                self._next = None
                await self._write(write)
        finally:
            self._under_way = False

    async def _write(self, write: _Write) -> None:
        try:
            await in_a_thread(
                self._folder.log_starts_later(self._topics.open_partitions(), write.starts, sync=write.sync)
            )
        except OSError as error:
            write.refused = f"the log start could not be written: {error}"
            log.error("log_starts.not_written", partitions=len(write.starts), reason=str(error))
        else:
            write.refused = ""
            for partition, start in write.starts.items():
                partition.truncate_start(start)
        finally:
            self._folder.log_starts_written()
            write.done.set()
