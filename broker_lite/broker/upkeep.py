"""What is done from time to time, a bounded piece at a time.

Each second: checkpoints, rolling by age, forgetting producers, removing files whose time has come, old segments.
What takes longer or comes more often goes on beside it: sealed segments are synced, compacted logs are compacted,
transactions time out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import anyio

from broker_lite.broker.cleaning import Cleaner
from broker_lite.broker.flushing import SealedSync
from broker_lite.broker.retention import Retention
from broker_lite.broker.steady import SteadyTime
from broker_lite.broker.surviving import surviving
from broker_lite.errors import CorruptMessage, StorageFailed
from broker_lite.log.graveyard import Graveyard
from broker_lite.logs import get_logger
from broker_lite.partition.partition import Partition

if TYPE_CHECKING:
    from broker_lite.broker.broker import Broker

log = get_logger(__name__)

CHECKPOINT_EVERY = 1.0
"""Seconds."""
PARTITIONS_A_TICK = 200
"""So that ten thousand partitions are looked after in a minute and no tick holds up the loop."""
PARTITIONS_A_CHECKPOINT = 5_000
"""For so many more, checkpoints are a second further apart: they are a line for each, and Kafka takes a minute."""
FILES_A_TICK = 20
"""To remove, of one partition: giving back a gigabyte takes a while."""


class Upkeep:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._next = 0
        self._checkpoint_in = 0
        self.time = SteadyTime(broker.clock)
        self.sealed = SealedSync(broker.settling.settled)
        self.retention = Retention(broker, self.time)
        self.cleaner = Cleaner(broker, self.time)

    async def run(self) -> None:
        async with anyio.create_task_group() as beside:
            beside.start_soon(self.sealed.run)
            beside.start_soon(self.cleaner.run)
            beside.start_soon(self._transactions)
            await self._each_second()

    async def _each_second(self) -> None:
        never = anyio.Event()
        while True:
            await self._broker.clock.wait(never, CHECKPOINT_EVERY)
            with surviving("upkeep"):
                self.tick()

    async def _transactions(self) -> None:
        """Each second, or as much more often as the configuration says."""
        never, clock, transactions = anyio.Event(), self._broker.clock, self._broker.transactions
        while True:
            await clock.wait(never, min(CHECKPOINT_EVERY, transactions.ticks_every))
            with surviving("transactions"):
                await transactions.tick()

    def tick(self) -> None:
        broker = self._broker
        partitions = list(broker.topics.open_partitions())
        now_ms = self.time.now_ms()
        begin = self._next if self._next < len(partitions) else 0
        self._next = begin + PARTITIONS_A_TICK
        for partition in partitions[begin : self._next]:
            self._look_after(partition, now_ms)
        self.retention.tick()
        self._checkpoint_in -= 1
        if self._checkpoint_in > 0 or broker.folder.busy:
            return
        self._checkpoint_in = len(partitions) // PARTITIONS_A_CHECKPOINT
        try:
            broker.folder.checkpoint(partitions, sync=False)
        except OSError as error:
            log.error("checkpoint.failed", reason=str(error))

    def _look_after(self, partition: Partition, now_ms: int) -> None:
        """What gives room comes first, and whatever is refused, the rest is tried: a full disk must not stay full."""
        graveyard = partition.log.head.graveyard
        steps: list[Callable[[], None]] = [partition.log.tidy, partial(partition.upkeep, now_ms)]
        if graveyard:
            steps.insert(0, partial(self._sweep, graveyard, partition.log.settings.cleanup.file_delete_delay_ms))
        for step in steps:
            try:
                step()
            except (StorageFailed, CorruptMessage, OSError) as error:
                log.error("partition.upkeep_failed", partition=str(partition.tp), reason=str(error))
        self.sealed.look(partition)

    def _sweep(self, graveyard: Graveyard, delay_ms: int) -> None:
        graveyard.sweep(self._broker.clock.monotonic(), delay_ms=delay_ms, at_most=FILES_A_TICK)
