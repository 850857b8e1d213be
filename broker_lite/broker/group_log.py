"""Decisions of the group coordinators on their way into `__consumer_offsets`: the one place where they are written.

A decision is one batch, so that it is in the log as a whole or not at all.  One that is too large for a batch is
refused if it has to be atomic (or is a single record), as in Kafka, and otherwise split: offsets, and the members of
a consumer group, are each true by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from broker_lite.broker.coordinator_errors import coordinator_error
from broker_lite.coordinator.decision import Decision, Record
from broker_lite.coordinator.groups.coordinator import Groups
from broker_lite.errors import BrokerError, StorageFailed
from broker_lite.ids import GROUP_OFFSETS_TOPIC
from broker_lite.logs import get_logger
from broker_lite.records.batch import HEADER_SIZE
from broker_lite.records.build import build_lines

if TYPE_CHECKING:
    from broker_lite.broker.broker import Broker
    from broker_lite.partition.partition import Partition

log = get_logger(__name__)

R = TypeVar("R")

MAX_RECORD_OVERHEAD = 23
"""Bytes of a record beside key and value: four varints of at most five bytes and three small ones."""


class GroupLog:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._clock = broker.clock

    def partition(self, index: int) -> Partition:
        self._broker.internal_topic(GROUP_OFFSETS_TOPIC)
        return self._broker.topics.partition(GROUP_OFFSETS_TOPIC, index)

    def write(
        self, index: int, groups: Groups, decision: Decision[R], producer_id: int = -1, producer_epoch: int = -1
    ) -> None:
        """The records are written and applied. If not, it is undone and the error is one for members."""
        written = 0
        try:
            partition = self.partition(index)
            records = decision.records
            for part in (records,) if len(records) == 1 or decision.is_atomic else _batches(partition, records):
                self._write(partition, groups, part, producer_id, producer_epoch)
                written += 1
        except (BrokerError, OSError) as error:
            reason = error if isinstance(error, BrokerError) else StorageFailed(str(error))
            log.error("groups.not_written", partition=index, records=len(decision.records), reason=reason.message)
            if decision.undo is not None:
                decision.undo(reason)
            if written:
                groups.partly_written(now=self._clock.monotonic(), now_ms=self._clock.now_ms())
            raise coordinator_error(reason) from error
        groups.written()

    def _write(
        self, partition: Partition, groups: Groups, records: list[Record], producer_id: int, producer_epoch: int
    ) -> None:
        now_ms = self._clock.now_ms()
        batch = build_lines(records, timestamp=now_ms, producer_id=producer_id, producer_epoch=producer_epoch)
        base = partition.append_internal(batch, now_ms=now_ms).base
        for at, record in enumerate(records, base):
            groups.apply(record, at=at, producer_id=producer_id, now_ms=now_ms)
        self._broker.appended(partition)


def _batches(partition: Partition, records: list[Record]) -> Iterator[list[Record]]:
    limit = min(partition.settings.rules.max_message_bytes, partition.settings.log.segment_bytes)
    start, size = 0, HEADER_SIZE
    for at, record in enumerate(records):
        need = len(record.key) + len(record.value or b"") + MAX_RECORD_OVERHEAD
        if size + need > limit and at > start:
            yield records[start:at]
            start, size = at, HEADER_SIZE
        size += need
    yield records[start:]
