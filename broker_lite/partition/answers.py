"""What a partition answers."""

from __future__ import annotations

from broker_lite.ids import Offset
from broker_lite.log.layout import AbortedTxn
from broker_lite.log.slice import FileSlice
from broker_lite.partition.producers import Producers
from broker_lite.records.batch import NO_TIMESTAMP
from broker_lite.shapes import dataclass


@dataclass(slots=True)
class Appended:
    base: Offset
    end: Offset
    """The offset after its last record."""
    log_start: Offset
    log_append_time: int = NO_TIMESTAMP
    """On a topic that stamps: when. Of a repeat: the time of the original, as Kafka answers."""
    duplicate: bool = False

    @property
    def last(self) -> Offset:
        return Offset(self.end - 1)


@dataclass(slots=True)
class Read:
    records: FileSlice | None
    high: Offset
    stable: Offset
    start: Offset
    aborted: list[AbortedTxn] | None
    """For readers of committed records only: what they must leave out."""


@dataclass(slots=True, frozen=True)
class ActiveProducer:
    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    txn_start_offset: int


def active(producers: Producers) -> list[ActiveProducer]:
    return [
        ActiveProducer(
            producer_id,
            known.epoch,
            known.last_sequence,
            known.last_timestamp,
            known.coordinator_epoch,
            known.txn_first,
        )
        for producer_id, known in producers
    ]
