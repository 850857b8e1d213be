"""The cleaner: one compacted log after the other, the dirtiest first.

The work is a thread's, one log at a time.  The thread shares the interpreter with the loop that answers clients, so it
works in slices of half a millisecond and lets go in between: whoever waits for the interpreter waits for a slice, not
for a gigabyte.

How far each log is clean is remembered in `cleaner-offset-checkpoint`, in Kafka's format.  If that is lost, everything
is dirty and the next round reads it all again; nothing else depends on it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from broker_lite.broker.steady import SteadyTime
from broker_lite.broker.surviving import surviving
from broker_lite.broker.threads import in_a_thread
from broker_lite.config import broker as keys
from broker_lite.errors import CorruptMessage, InvalidRecord
from broker_lite.ids import TopicId, TopicPartition
from broker_lite.log import checkpoints, layout
from broker_lite.log.compaction import Plan, Round, plan
from broker_lite.log.segment import Segment
from broker_lite.logs import get_logger
from broker_lite.partition.partition import Partition

if TYPE_CHECKING:
    from broker_lite.broker.broker import Broker

log = get_logger(__name__)

SLICE = 0.0005
LONGEST_SLICE = 0.0025
PAUSE = 0.0002
"""Seconds. Shorter pauses do not wake the other thread. Where one lasts longer, because the loop never rests, so does
the next slice, or the cleaner would have a tenth of the time."""
PLANS_AT_ONCE = 100
AGAIN_AFTER = 1.0
"""Seconds, where the disk refuses what has to be done."""
SHORTEST_REST = 0.05
"""Seconds, whatever `log.cleaner.backoff.ms` says."""


class _Stopped(Exception):
    """The broker goes down; the round ends where it is."""


class _Pace:
    """Called by the thread for each batch, and for every few records of a large one."""

    def __init__(self) -> None:
        self.stopping = False
        self._until = 0.0

    def __call__(self) -> None:
        if time.perf_counter() >= self._until:
            if self.stopping:
                raise _Stopped
            before = time.perf_counter()
            time.sleep(PAUSE)
            now = time.perf_counter()
            self._until = now + min(LONGEST_SLICE, max(SLICE, (now - before) / 2))


class Cleaner:
    def __init__(self, broker: Broker, steady: SteadyTime) -> None:
        self._broker = broker
        self._time = steady
        self._pace = _Pace()
        self._clean: dict[TopicPartition, tuple[TopicId, int]] = {}
        """Up to where, and of which topic: a new one of the same name begins dirty."""
        self._uncleanable: set[tuple[TopicPartition, TopicId]] = set()
        self._failing: set[tuple[TopicPartition, TopicId]] = set()
        """Left alone until the next rest is over, so that others have their turn."""

    async def run(self) -> None:
        get = self._broker.settings.get
        if not get(keys.LOG_CLEANER_ENABLE):
            return
        self._load()
        never = anyio.Event()
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._stop_when_cancelled)
            while True:
                await self._broker.clock.wait(never, max(SHORTEST_REST, get(keys.LOG_CLEANER_BACKOFF_MS) / 1000))
                with surviving("cleaner"):
                    await self.clean_all()

    async def clean_all(self) -> None:
        """Every log that needs it, once."""
        self._failing.clear()
        while await self.clean_one():
            pass

    async def _stop_when_cancelled(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self._pace.stopping = True  # a thread is waited for, so it has to be told

    # --- what to do -----------------------------------------------------------------------------------------------

    def _load(self) -> None:
        folder, topics = self._broker.folder, self._broker.topics
        for tp, offset in checkpoints.read_offsets(folder.disk, folder.path / layout.CLEANED_UP_TO).items():
            topic = topics.get(tp.topic)
            if topic is not None:
                self._clean[tp] = (topic.id, offset)

    def _first_dirty(self, partition: Partition) -> int:
        topic_id, offset = self._clean.get(partition.tp, (partition.topic_id, 0))
        return offset if topic_id == partition.topic_id else 0

    async def _dirtiest(self) -> tuple[Partition, Plan] | None:
        best: tuple[Partition, Plan] | None = None
        now_ms = self._time.now_ms()
        for number, partition in enumerate(list(self._broker.topics.open_partitions())):
            if number % PLANS_AT_ONCE == PLANS_AT_ONCE - 1:
                await anyio.lowlevel.checkpoint()
            if not partition.log.settings.cleanup.compact:
                continue
            if self._name(partition) in self._uncleanable or self._name(partition) in self._failing:
                continue
            try:
                found = plan(
                    partition.log,
                    first_dirty=self._first_dirty(partition),
                    stable=partition.offsets.stable,
                    now_ms=now_ms,
                )
            except (OSError, CorruptMessage) as error:
                self._failed(partition, error)
                continue
            if found is not None and (best is None or found.ratio > best[1].ratio):
                best = partition, found
        return best

    # --- doing it -------------------------------------------------------------------------------------------------

    async def clean_one(self) -> bool:
        """A round for the log that needs it most; False if none does."""
        chosen = await self._dirtiest()
        if chosen is None:
            return False
        partition, found = chosen
        began = time.perf_counter()
        work = Round(partition.log, found, last_records=partition.last_records(), now_ms=self._time.now_ms())
        try:
            finished = await self._clean_log(partition, work)
        except (OSError, CorruptMessage, InvalidRecord) as error:
            self._failed(partition, error)
        except _Stopped:
            return False
        else:
            if finished:
                seconds = round(time.perf_counter() - began, 3)
                log.info("log.compacted", partition=str(partition.tp), seconds=seconds, **work.facts)
        finally:
            work.end()
        return True

    async def _clean_log(self, partition: Partition, work: Round) -> bool:
        """False if the topic was deleted meanwhile, or its disk failed."""
        folder = self._broker.folder
        for part in work.parts():
            if not await in_a_thread(work.read_keys, part, self._pace):
                break
        # A missing offset behind the recovery point would be taken for damage, so that has to be safe first.
        await in_a_thread(folder.checkpoint_later(self._broker.topics.open_partitions()))
        for group in work.groups():
            if partition.log.offline:
                return False
            work.begin(group)
            await in_a_thread(work.sift, group, self._pace)
            if partition.log.offline:
                return False
            work.promote()
            if not await self._commit(partition, work, group):
                return False
            await in_a_thread(folder.disk.sync_dir, partition.log.path)
        self._clean[partition.tp] = (partition.topic_id, work.clean_upto)
        await in_a_thread(self._save, self._known())
        return True

    async def _commit(self, partition: Partition, work: Round, group: list[Segment]) -> bool:
        """There is no way back, so it is tried until it is done. False if the topic was deleted meanwhile."""
        while self._broker.topics.by_id(partition.topic_id) is not None:
            try:
                work.commit(group)
            except OSError as error:
                log.error("log.not_swapped", partition=str(partition.tp), reason=str(error))
            else:
                return True
            await self._broker.clock.wait(anyio.Event(), AGAIN_AFTER)
        return False

    def _known(self) -> dict[TopicPartition, int]:
        topics = self._broker.topics
        for tp, (topic_id, _) in list(self._clean.items()):
            topic = topics.get(tp.topic)
            if topic is None or topic.id != topic_id:
                del self._clean[tp]
        return {tp: offset for tp, (_, offset) in self._clean.items()}

    def _save(self, offsets: dict[TopicPartition, int]) -> None:
        folder = self._broker.folder
        checkpoints.write_offsets(folder.disk, folder.path / layout.CLEANED_UP_TO, offsets, sync=False)

    def _name(self, partition: Partition) -> tuple[TopicPartition, TopicId]:
        return partition.tp, partition.topic_id

    def _failed(self, partition: Partition, error: Exception) -> None:
        """A full disk may have room later; what is damaged stays so until the next start."""
        if isinstance(error, OSError):
            self._failing.add(self._name(partition))
            log.error("log.not_compacted", partition=str(partition.tp), reason=str(error))
        elif not partition.log.offline:
            self._uncleanable.add(self._name(partition))
            log.error("log.uncleanable", partition=str(partition.tp), reason=str(error))
