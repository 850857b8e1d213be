"""Batch by batch: what of it stays when a log is compacted.

A record stays if no later one has its key.  A tombstone (a record without a value) stays for a while longer, so that
slow readers hear of it: the first compaction that meets it writes the hour of its removal into its batch, a later one
removes it.  Records of aborted transactions and records without a key go at once.

A batch of which something stays keeps its offsets and sequences; only the records between are missing.  A batch of
which nothing stays goes, unless it is the last of its producer, whose sequence a restart must find, or the last of the
round, so that the log does not seem to end earlier.  Then its empty shell stays.

A transaction's marker stays until nothing of the transaction is left, and then as long as a tombstone would.  The last
marker of a producer that has nothing else stays for good: it keeps old incarnations out.

This needs to know the transactions as they pass by, see `Passing`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from broker_lite.log.aborted import AbortedTxn
from broker_lite.log.keymap import KeyMap
from broker_lite.log.spans import Pace, Span, handfuls, opened, shifted
from broker_lite.records.batch import DELETE_HORIZON, LOG_APPEND_TIME, Batch
from broker_lite.records.build import assemble
from broker_lite.records.compression import deflate
from broker_lite.records.control import read_marker
from broker_lite.shapes import dataclass

_KNOWN_BITS = 0x3F
_WITHOUT_CODEC = 0x38


class LastRecord(NamedTuple):
    """What a producer, still remembered, wrote last."""

    offset: int | None
    """Of its last record; None if only a marker is known."""
    epoch: int


class Passing:
    """Transactions, as their batches and markers pass by in the order of the log."""

    __slots__ = ("_aborted", "_coming", "_committed", "ended")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._coming = [(one.first_offset, one) for one in aborted]
        heapq.heapify(self._coming)
        self._aborted: dict[int, tuple[AbortedTxn, bool]] = {}
        """Producer -> its aborted transaction, and whether a batch of it was seen."""
        self._committed: set[int] = set()
        self.ended: list[AbortedTxn] = []
        """Aborted ones whose marker came by and of which there was something: their index entries are still needed."""

    def _begin(self, upto: int) -> None:
        while self._coming and self._coming[0][0] <= upto:
            one = heapq.heappop(self._coming)[1]
            self._aborted[one.producer_id] = (one, False)

    def batch(self, batch: Batch) -> bool:
        """Whether its transaction was aborted."""
        self._begin(batch.last_offset)
        if not batch.is_transactional:
            return False
        known = self._aborted.get(batch.producer_id)
        if known is None:
            self._committed.add(batch.producer_id)
            return False
        self._aborted[batch.producer_id] = (known[0], True)
        return True

    def marker(self, batch: Batch) -> bool:
        """Whether nothing was left of the transaction that it ends."""
        self._begin(batch.last_offset)
        marker = read_marker(batch) if batch.count else None
        if marker is None:
            return batch.count == 0
        if marker.commit:
            seen = batch.producer_id in self._committed
            self._committed.discard(batch.producer_id)
            return not seen
        one, seen = self._aborted.pop(batch.producer_id, (None, False))
        if one is not None and seen:
            self.ended.append(one)
        return not seen


@dataclass(slots=True)
class Sieve:
    keys: KeyMap
    passing: Passing
    last_records: Mapping[int, LastRecord]
    now_ms: int
    delete_retention_ms: int
    kept_records: int = 0
    read_records: int = 0

    def __call__(self, batch: Batch, pace: Pace) -> bytes | memoryview | None:
        """What stays of `batch`: itself, another one, or nothing."""
        self.read_records += batch.count
        if batch.is_control:
            return self._marker(batch, pace)
        aborted = self.passing.batch(batch)
        if batch.base_offset > self.keys.latest:
            self.kept_records += batch.count
            return batch.buf
        if aborted or not batch.count:
            return self._shell(batch)
        return self._data(batch, pace)

    def _marker(self, batch: Batch, pace: Pace) -> bytes | memoryview | None:
        done = self.passing.marker(batch)
        if not done or batch.base_offset > self.keys.latest or (batch.count and self._is_last(batch)):
            return batch.buf
        if not batch.count or (batch.has_delete_horizon and batch.base_timestamp <= self.now_ms):
            return self._shell(batch)
        if batch.has_delete_horizon:
            return batch.buf
        contents = opened(batch, pace)
        return batch.buf if contents is None else self._rebuilt(batch, *contents, horizon=self._horizon)

    def _data(self, batch: Batch, pace: Pace) -> bytes | memoryview | None:
        contents = opened(batch, pace)
        if contents is None:
            self.kept_records += batch.count
            return batch.buf
        payload, records = contents
        overdue = batch.has_delete_horizon and batch.base_timestamp <= self.now_ms
        base, last = batch.base_offset, self.keys.last
        kept = [
            span
            for few in handfuls(records, pace)
            for span in few
            if span.key is not None and base + span.offset_delta >= last(span.key) and (span.has_value or not overdue)
        ]
        if not kept:
            return self._shell(batch)
        self.kept_records += len(kept)
        horizon = None
        if not batch.has_delete_horizon and not all(span.has_value for span in kept):
            horizon = self._horizon
        elif len(kept) == batch.count:
            return batch.buf
        return self._rebuilt(batch, payload, kept, horizon=horizon)

    @property
    def _horizon(self) -> int:
        return self.now_ms + self.delete_retention_ms

    def _is_last(self, batch: Batch) -> bool:
        """Of its producer: what a restart has to find of it."""
        known = self.last_records.get(batch.producer_id) if batch.has_producer else None
        if known is None:
            return False
        if known.offset is None:
            return batch.is_control and batch.producer_epoch == known.epoch
        return batch.last_offset == known.offset

    def _shell(self, batch: Batch) -> bytes | memoryview | None:
        if not self._is_last(batch) and batch.last_offset != self.keys.latest:
            return None
        if not batch.count:
            return batch.buf
        return assemble(
            b"",
            base_offset=batch.base_offset,
            leader_epoch=batch.leader_epoch,
            attributes=batch.attributes & _WITHOUT_CODEC,
            last_offset_delta=batch.last_offset_delta,
            base_timestamp=-1,
            max_timestamp=batch.max_timestamp,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            count=0,
        )

    def _rebuilt(self, batch: Batch, payload: bytes, kept: list[Span], *, horizon: int | None) -> bytes:
        """The batch with these records. A new horizon takes the place of the base timestamp."""
        attributes = batch.attributes & (_KNOWN_BITS | DELETE_HORIZON)
        base_timestamp = batch.base_timestamp
        if horizon is None:
            records = b"".join(payload[span.start : span.end] for span in kept)
        else:
            by = base_timestamp - horizon
            records = b"".join(shifted(payload, span, by) for span in kept)
            attributes |= DELETE_HORIZON
        newest = base_timestamp + max(span.timestamp_delta for span in kept)
        return assemble(
            deflate(batch.codec, records),
            base_offset=batch.base_offset,
            leader_epoch=batch.leader_epoch,
            attributes=attributes,
            last_offset_delta=batch.last_offset_delta,
            base_timestamp=base_timestamp if horizon is None else horizon,
            max_timestamp=batch.max_timestamp if attributes & LOG_APPEND_TIME else newest,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            count=len(kept),
        )
