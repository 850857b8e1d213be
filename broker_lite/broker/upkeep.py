"""What is done from time to time, a bounded piece at a time: checkpoints, rolling by age, forgetting producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import structlog

from broker_lite.errors import StorageFailed

if TYPE_CHECKING:
    from broker_lite.broker.broker import Broker

log = structlog.get_logger()

CHECKPOINT_EVERY = 1.0
"""Seconds."""
PARTITIONS_A_TICK = 200
"""So that ten thousand partitions are looked after in a minute and no tick holds up the loop."""


class Upkeep:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._next = 0

    async def run(self) -> None:
        never = anyio.Event()
        while True:
            await self._broker.clock.wait(never, CHECKPOINT_EVERY)
            self.tick()
            await self._broker.transactions.tick(self._broker.clock.now_ms(), self._broker.clock.monotonic())

    def tick(self) -> None:
        broker = self._broker
        partitions = list(broker.topics.open_partitions())
        now_ms = broker.clock.now_ms()
        begin = self._next if self._next < len(partitions) else 0
        self._next = begin + PARTITIONS_A_TICK
        for partition in partitions[begin : self._next]:
            try:
                partition.upkeep(now_ms)
            except StorageFailed as error:
                log.error("partition.upkeep_failed", partition=str(partition.tp), reason=error.message)
        try:
            broker.folder.checkpoint(partitions, sync=False)
        except OSError as error:
            log.error("checkpoint.failed", reason=str(error))
