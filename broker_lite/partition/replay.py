"""What a restart does: the newest snapshot of the producers, then every batch that follows it in the log.

A snapshot is only a shortcut, so it may be too new to be of use.  After a crash the batches from the recovery point
on are replayed even if a later snapshot is there, because the index of aborted transactions beside them may have lost
its tail; adding an entry that is there already changes nothing.

A log of many small batches has many headers.  Those without a producer are only stepped over, and a marker as it is
always written is read from its bytes: a million batches without producers take about a second, a hundred thousand
transactions of one batch and one marker less than that.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from broker_lite.errors import CorruptMessage, InvalidRecord
from broker_lite.log.layout import AbortedTxn
from broker_lite.log.log import Log
from broker_lite.log.scan import step_at
from broker_lite.log.segment import Segment
from broker_lite.partition import snapshots
from broker_lite.partition.producers import NO_TRANSACTION, Draft, Producers
from broker_lite.partition.transactions import Transactions
from broker_lite.records.batch import CONTROL, HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC, TRANSACTIONAL, Batch
from broker_lite.records.control import read_marker

CHUNK = 1 << 20
_CIRCLE = 0x7FFFFFFF
_MARKER = Struct(">5sHHBHi")
_MARKER_SIZE = HEADER_SIZE + 17
_MARKER_HEAD = b"\x20\x00\x00\x00\x08"
"""A record of sixteen bytes: no attributes, no deltas, a key of four bytes."""
_VALUE_OF_SIX = 0x0C

Found = tuple[tuple[int, ...], bytes, int]
"""A header, and the bytes in which the batch lies, from this position on."""


class State:
    """Producers and open transactions of one log; `apply` is the only way in, for new batches and old ones."""

    __slots__ = ("aborted", "log", "producers", "transactions")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.producers = Producers()
        self.transactions = Transactions()
        self.aborted: list[AbortedTxn] | None = None
        """While a log is replayed: found, and not yet in its index."""

    def apply(self, draft: Draft, base: int) -> None:
        began = self.producers.apply(draft, base)
        if began is not None:
            self.transactions.begin(draft.producer_id, began)

    def apply_marker(self, batch: Batch, offset: int, *, commit: bool, coordinator_epoch: int) -> None:
        began = self.producers.apply_marker(
            batch.producer_id,
            batch.producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=batch.max_timestamp,
        )
        if began is None:
            return
        self._end(batch.producer_id, began, offset, commit=commit)

    def _end(self, producer_id: int, began: int, offset: int, *, commit: bool) -> None:
        ended = self.transactions.end(producer_id, began, offset, commit=commit)
        if not commit:
            entry = AbortedTxn(producer_id, began, offset, ended.stable_after)
            if self.aborted is None:
                self.log.aborted.add(entry)
            else:
                self.aborted.append(entry)

    def apply_old(self, found: Found) -> None:
        """A batch with a producer that was found in the log."""
        header, data, pos = found
        base, length, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, sequence, _ = header
        if not attributes & CONTROL:
            last = sequence if sequence < 0 else (sequence + delta) & _CIRCLE
            self.apply(Draft(producer_id, epoch, last, delta, timestamp, attributes & TRANSACTIONAL != 0), base)
            return
        said = _marker_at(data, pos, length + LOG_OVERHEAD)
        if said is None:
            marker = read_marker(Batch.at(data, pos))
            if marker is None:
                return
            said = marker.commit, marker.coordinator_epoch
        began = self.producers.apply_marker(producer_id, epoch, coordinator_epoch=said[1], timestamp=timestamp)
        if began is not None:
            self._end(producer_id, began, base, commit=said[0])


def _marker_at(data: bytes, pos: int, size: int) -> tuple[bool, int] | None:
    """Whether it commits, and its coordinator's epoch, if the marker is as it is always written. See `control`."""
    if size != _MARKER_SIZE:
        return None
    head, _, kind, value, _, coordinator_epoch = _MARKER.unpack_from(data, pos + HEADER_SIZE)
    if head != _MARKER_HEAD or kind > 1 or value != _VALUE_OF_SIX:
        return None
    return kind == 1, coordinator_epoch


def _with_producer(log: Log, from_offset: int) -> Iterator[Found]:
    """The batches from `from_offset` on that have a producer. Raises CorruptMessage where no batch can start."""
    for segment in log.segments:
        if segment.next_offset <= from_offset or not segment.size:
            continue
        position = 0
        if from_offset > segment.base:
            first = segment.find(from_offset)
            position = segment.size if first is None else first.position
        yield from _in_segment(segment, position, from_offset)


def _in_segment(segment: Segment, position: int, from_offset: int) -> Iterator[Found]:
    size, read, unpack = segment.size, segment.file.pread, HEADER.unpack_from
    while position < size:
        data = read(position, min(CHUNK, size - position))
        pos, most = 0, len(data)
        while pos + HEADER_SIZE <= most:
            header = unpack(data, pos)
            stop = pos + LOG_OVERHEAD + header[1]
            if header[3] != MAGIC or stop < pos + HEADER_SIZE or header[6] < 0 or position + stop > size:
                stop = pos + step_at(data, pos, position + pos, size).size  # older than batches, or damaged
                header = (0,) * 9 + (-1,)
            if stop > most:
                break
            if header[9] > -1 and header[0] >= from_offset:
                yield header, data, pos
            pos = stop
        if not pos:  # not one batch is whole here: a long one, a short one at the end, or no batch at all
            step = step_at(data, 0, position, size)
            if step.size > most:
                data = read(position, step.size)
            if step.magic == MAGIC and (header := unpack(data))[9] > -1 and step.base >= from_offset:
                yield header, data, 0
            pos = step.size
        position += pos


def restore(log: Log, *, now_ms: int, expiration_ms: int) -> tuple[State, int]:
    """The state as of the log's end, and the offset of the snapshot that it came from, -1 if from none."""
    state = State(log)
    first = log.segments[0].base
    from_offset, snapshot = first, -1
    loaded = snapshots.load(log.disk, log.path, start=first, end=log.end, upto=_trusted(log))
    if loaded is not None:
        from_offset, state.producers = loaded
        snapshot = from_offset
        for producer_id, known in state.producers:
            if known.txn_first != NO_TRANSACTION:
                state.transactions.begin(producer_id, known.txn_first)
    state.aborted = []
    try:
        for found in _with_producer(log, from_offset):
            state.apply_old(found)
    except (CorruptMessage, InvalidRecord) as error:
        # Damage that nobody has seen until now. What is known stays readable, and nothing is written behind it.
        log.go_offline(f"{log.path.name} cannot be replayed: {error.message}")
    log.aborted.add_all(state.aborted)
    state.aborted = None
    state.producers.expire(now_ms, expiration_ms)
    return state, snapshot


def _trusted(log: Log) -> int:
    """Up to where the index of aborted transactions is what it was."""
    upto = log.end if log.recovered.scanned_from is None else log.recovered.scanned_from
    unreadable = log.aborted.unreadable_from
    return upto if unreadable is None else min(upto, unreadable)
