"""Finding records by time, and the aborted transactions of a stretch of log.

A batch knows its highest timestamp, so batches that are too old are passed over unopened; the first that is not is
inflated to find the record.  A block that cannot be inflated was stored unseen, as it came: then the batch's first
offset stands for its records.

What was stored unseen may also become 64 MiB with millions of records, which takes seconds to look through.  Whoever
may not wait that long looks with `Opened`: it opens what is small, and raises `Unopened` where a thread should do it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from broker_lite.errors import BrokerError
from broker_lite.ids import LeaderEpoch, Offset
from broker_lite.log.layout import AbortedTxn
from broker_lite.log.log import Log
from broker_lite.log.scan import Step
from broker_lite.log.slice import FileSlice
from broker_lite.records.batch import MAGIC, Batch
from broker_lite.records.record import records_of

Found = tuple[Offset, int, LeaderEpoch]
_MAX_TIMESTAMP = (1 << 63) - 1
_LIGHT = 16 << 10
"""Bytes of a batch up to which it is looked through in no time, unless it is compressed: then nobody knows."""


def first_in(batch: Batch, timestamp: int, start: Offset) -> Found | None:
    """The first record of a batch that is of `timestamp` or later and not before `start`."""
    epoch = LeaderEpoch(batch.leader_epoch)
    try:
        for record in records_of(batch):
            if record.timestamp >= timestamp and record.offset >= start:
                # Unopened when it came, so it may hold numbers that no record can have.
                offset = min(max(record.offset, batch.base_offset), batch.last_offset)
                return Offset(offset), min(record.timestamp, _MAX_TIMESTAMP), epoch
    except BrokerError:
        return Offset(max(batch.base_offset, start)), batch.max_timestamp, epoch
    return None


Open = Callable[[Batch, int, Offset], Found | None]


class Question(NamedTuple):
    """What `first_in` is to be asked."""

    batch: Batch
    timestamp: int
    start: Offset


class Unopened(Exception):
    def __init__(self, question: Question) -> None:
        super().__init__("a batch has to be opened elsewhere")
        self.question = question


class Opened:
    """`first_in` for batches that are small, and what others found out about those that are not."""

    def __init__(self) -> None:
        self._known: dict[int, Found | None] = {}

    def __call__(self, batch: Batch, timestamp: int, start: Offset) -> Found | None:
        if not batch.codec and batch.size <= _LIGHT:
            return first_in(batch, timestamp, start)
        if batch.base_offset not in self._known:
            raise Unopened(Question(batch, timestamp, start))
        return self._known[batch.base_offset]

    def learn(self, question: Question, found: Found | None) -> None:
        self._known[question.batch.base_offset] = found


def by_time(log: Log, timestamp: int, limit: Offset, opening: Open = first_in) -> Found | None:
    """The first record before `limit` that is of `timestamp` or later."""
    for batch in log.find_time(timestamp):
        if batch.base_offset >= limit:
            return None
        found = opening(batch, timestamp, log.start)
        if found is not None:
            return found if found[0] < limit else None
    return None


def by_max_time(log: Log, limit: Offset, opening: Open = first_in) -> Found | None:
    """The first record with the highest timestamp, if it lies before `limit`."""
    top = log.max_timestamp()
    if top is None or log.start >= log.end:
        return None
    timestamp, last = top
    if last < log.start:
        step = _newest(log)
        if step is None:
            return None
        timestamp, last = step.max_timestamp, Offset(step.last)
    batch = log.batch_at(last)
    found = None if batch is None else opening(batch, timestamp, log.start)
    return found if found is not None and found[0] < limit else None


def old_until(log: Log) -> Offset:
    """Where the first segment begins that begins with a batch: only before it are there messages of magic 0 and 1."""
    until = Offset(0)
    for segment in log.segments:
        try:
            if not segment.size or segment.header(0).magic == MAGIC:
                break
        except (BrokerError, OSError):
            break
        until = Offset(segment.next_offset)
    return until


def _newest(log: Log) -> Step | None:
    """The highest timestamp lies among deleted records: look at the headers of those that are left."""
    best: Step | None = None
    for segment in log.segments:
        for step in segment.steps():
            if step.last >= log.start and step.max_timestamp >= 0 and (not best or step[5] > best.max_timestamp):
                best = step
    return best


def aborted_in(log: Log, records: FileSlice, offset: Offset, limit: Offset) -> list[AbortedTxn]:
    """Transactions that were aborted and have records in `records`, which begins with the batch of `offset`.

    Exactly those: Kafka lists more, up to the next index entry, which readers have to put up with.
    """
    return log.aborted.overlapping(offset, min(log.finder.end_of(records, offset), limit))
