"""What a restart does: the newest snapshot of the producers, then every batch that follows it in the log.

A snapshot is only a shortcut, so it may be too new to be of use.  After a crash the batches from the recovery point
on are replayed even if a later snapshot is there, because the index of aborted transactions beside them may have lost
its tail; adding an entry that is there already changes nothing.
"""

from __future__ import annotations

from broker_lite.errors import CorruptMessage, InvalidRecord
from broker_lite.ids import Offset
from broker_lite.log.layout import AbortedTxn
from broker_lite.log.log import Log
from broker_lite.partition import snapshots
from broker_lite.partition.producers import NO_TRANSACTION, Draft, Producers
from broker_lite.partition.transactions import Transactions
from broker_lite.records.batch import Batch
from broker_lite.records.control import read_marker


class State:
    """Producers and open transactions of one log; `apply` is the only way in, for new batches and old ones."""

    __slots__ = ("log", "producers", "transactions")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.producers = Producers()
        self.transactions = Transactions()

    def apply(self, draft: Draft, base: int) -> None:
        began = self.producers.apply(draft, base)
        if began is not None:
            self.transactions.begin(draft.producer_id, began)

    def apply_marker(self, batch: Batch, offset: int, *, commit: bool, coordinator_epoch: int) -> None:
        """Raises OSError if the index of aborted transactions could not be written; in memory it is right."""
        began = self.producers.apply_marker(
            batch.producer_id,
            batch.producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=batch.max_timestamp,
        )
        if began is None:
            return
        ended = self.transactions.end(batch.producer_id, began, offset, commit=commit)
        if not commit:
            self.log.aborted.add(AbortedTxn(batch.producer_id, began, offset, ended.stable_after))

    def apply_old(self, batch: Batch) -> None:
        """A batch that was found in the log."""
        if not batch.has_producer:
            return
        if not batch.is_control:
            self.apply(Draft.of(batch), batch.base_offset)
        elif (marker := read_marker(batch)) is not None:
            self.apply_marker(
                batch, batch.base_offset, commit=marker.commit, coordinator_epoch=marker.coordinator_epoch
            )


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
    try:
        if from_offset < log.end:
            for batch in log.batches(Offset(from_offset), old=False):
                if batch.base_offset >= from_offset:
                    state.apply_old(batch)
    except (CorruptMessage, InvalidRecord) as error:
        # Damage that nobody has seen until now. What is known stays readable, and nothing is written behind it.
        log.go_offline(f"{log.path.name} cannot be replayed: {error.message}")
    state.producers.expire(now_ms, expiration_ms)
    return state, snapshot


def _trusted(log: Log) -> int:
    """Up to where the index of aborted transactions is what it was."""
    upto = log.end if log.recovered.scanned_from is None else log.recovered.scanned_from
    unreadable = log.aborted.unreadable_from
    return upto if unreadable is None else min(upto, unreadable)
