"""Old segments are deleted: every `log.retention.check.interval.ms` all partitions are looked at, a few at a time."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from broker_lite.broker.steady import SteadyTime
from broker_lite.config import broker as keys
from broker_lite.errors import CorruptMessage, StorageFailed
from broker_lite.ids import Offset
from broker_lite.log.retention import drop_expired, new_start
from broker_lite.logs import get_logger
from broker_lite.partition.partition import Partition

if TYPE_CHECKING:
    from broker_lite.broker.broker import Broker

log = get_logger(__name__)

PARTITIONS_A_TICK = 200
SEGMENTS_A_TICK = 50
"""Of one partition: a rename and a few for its indexes each."""
FIRST_AFTER = 30.0
"""Seconds, if the interval is not shorter: a broker that has just started has better things to do."""


class Retention:
    def __init__(self, broker: Broker, time: SteadyTime) -> None:
        self._broker = broker
        self._time = time
        self._queue: deque[Partition] = deque()
        self._due = broker.clock.monotonic() + min(self._interval, FIRST_AFTER)

    @property
    def _interval(self) -> float:
        return self._broker.settings.get(keys.LOG_RETENTION_CHECK_INTERVAL_MS) / 1000

    def tick(self) -> None:
        monotonic = self._broker.clock.monotonic()
        if not self._queue and monotonic >= self._due:
            self._due = monotonic + self._interval
            self._queue.extend(self._broker.topics.open_partitions())
        again = []
        for _ in range(min(PARTITIONS_A_TICK, len(self._queue))):
            partition = self._queue.popleft()
            try:
                if self._look(partition):
                    again.append(partition)
            except (StorageFailed, CorruptMessage, OSError) as error:
                log.error("retention.failed", partition=str(partition.tp), reason=str(error))
        self._queue.extend(again)

    def _look(self, partition: Partition) -> bool:
        """Whether there may be more to delete."""
        the_log = partition.log
        if the_log.head.held:
            return False
        now_ms = self._time.now_ms()
        start = new_start(the_log, high=partition.offsets.high, now_ms=now_ms, at_most=SEGMENTS_A_TICK)
        if start is None or start <= partition.offsets.start:
            return False
        before, size = len(the_log.segments), the_log.size_bytes
        try:
            drop_expired(the_log, start, now_ms)
        except StorageFailed as error:
            # No room for a new segment: the active one stays, and those before it give room.
            log.error("retention.failed", partition=str(partition.tp), reason=error.message)
            start = Offset(the_log.segments[-1].base)
            if the_log.offline or start <= partition.offsets.start:
                return False
        partition.truncate_start(start)
        freed = size - the_log.size_bytes
        log.info("segments.deleted", partition=str(partition.tp), start=start, bytes=freed)
        return before > SEGMENTS_A_TICK
