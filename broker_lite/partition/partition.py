"""The truth about one partition.

Every append is three steps that nothing can come between, because they are one `def`:

    decide   is the batch one that may be written, or a repeat?  May refuse; changes nothing
    write    one writev.  If it fails, nothing has happened
    apply    producers, transactions, offsets.  Cannot refuse

A transaction is verified in the first step of the very call that writes, so no marker can slip in between.

Who reads up to where: everyone up to the high watermark, which is the end of the log or, where an acknowledgement
means that the disk has it, what was synced; readers of committed records up to the last stable offset.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from broker_lite.errors import (
    FencedLeaderEpoch,
    MessageTooLarge,
    OffsetOutOfRange,
    RecordListTooLarge,
    StorageFailed,
    UnknownLeaderEpoch,
)
from broker_lite.ids import LeaderEpoch, Offset, TopicId, TopicPartition
from broker_lite.log.disk import Disk
from broker_lite.log.layout import AbortedTxn
from broker_lite.log.log import Log
from broker_lite.log.opening import open_log
from broker_lite.log.retention import roll_if_old
from broker_lite.log.sifting import LastRecord
from broker_lite.log.slice import FileSlice
from broker_lite.log.sync import SyncJob
from broker_lite.partition import lookup, snapshots
from broker_lite.partition.answers import ActiveProducer, Appended, Read, active
from broker_lite.partition.claim import claim, next_epoch
from broker_lite.partition.lookup import Found, Open, first_in
from broker_lite.partition.offsets import Offsets
from broker_lite.partition.producers import CLIENT, COORDINATOR, Draft, Duplicate, Origin
from broker_lite.partition.replay import State, restore
from broker_lite.partition.settings import PartitionSettings as PartitionSettings
from broker_lite.records.batch import NO_TIMESTAMP, Batch
from broker_lite.records.check import Checked, check_client_batch
from broker_lite.records.control import build_marker


class Partition:
    """One partition of a topic, led by this broker."""

    __slots__ = (
        "_expired_ms",
        "_old_until",
        "_snapshot_at",
        "_state",
        "_transactions",
        "leader_epoch",
        "log",
        "offsets",
        "settings",
        "topic_id",
        "tp",
    )

    def __init__(
        self, tp: TopicPartition, topic_id: TopicId, log: Log, state: State, settings: PartitionSettings
    ) -> None:
        self.tp = tp
        self.topic_id = topic_id
        self.log = log
        self.settings = settings
        self.offsets = Offsets(log.start, log.end)
        self.leader_epoch = LeaderEpoch(max(0, log.epochs.latest))
        self._state = state
        self._transactions = state.transactions
        self._snapshot_at = -1
        self._expired_ms = 0
        self._old_until: Offset | None = None
        log.on_roll = self._snapshot

    @classmethod
    def open(
        cls,
        tp: TopicPartition,
        topic_id: TopicId,
        path: Path,
        disk: Disk,
        settings: PartitionSettings,
        *,
        leader_epoch: LeaderEpoch | None = None,
        clean: bool = False,
        recovery_point: Offset | None = None,
        log_start: Offset | None = None,
        high_watermark: Offset | None = None,
        now_ms: int,
        make: bool = True,
    ) -> Partition:
        """Open or create the partition in the folder `path` and lead it, in the next leader epoch unless told.

        A single broker has every acknowledged record, so the high watermark begins at the log's end, whatever the
        checkpoint says; what a crash left unsynced is synced first where readers may only see what is.
        Not `make`: a new one gets its folder with its first batch.
        """
        log = open_log(
            path,
            disk,
            settings.log,
            clean=clean,
            recovery_point=recovery_point,
            log_start=log_start,
            now_ms=now_ms,
            make=make,
        )
        try:
            if log.missing:
                partition = cls(tp, topic_id, log, State(log), settings)
                log.on_make = partition._made
            else:
                claim(disk, path, topic_id, sync=settings.hold_high_until_synced)
                state, snapshot = restore(log, now_ms=now_ms, expiration_ms=settings.producer_expiration_ms)
                partition = cls(tp, topic_id, log, state, settings)
                partition._snapshot_at = snapshot
            partition._expired_ms = now_ms
            partition.lead(next_epoch(log) if leader_epoch is None else leader_epoch)
        except OSError as error:
            raise StorageFailed(f"cannot open {path.name}: {error}") from error
        if settings.hold_high_until_synced:
            log.flush()
        partition.offsets.move(start=log.start, stable=log.start, high=log.end, end=log.end)
        partition._advance()
        return partition

    def lead(self, epoch: int) -> None:
        """From here on batches are stamped with `epoch`; the log writes it down before the first of them."""
        self.log.epochs.note(epoch, self.log.end)
        self.leader_epoch = LeaderEpoch(self.log.epochs.latest)

    def _made(self) -> None:
        claim(self.log.disk, self.log.path, self.topic_id, sync=False)
        self.log.on_make = None

    def reconfigure(self, settings: PartitionSettings) -> None:
        self.settings = settings
        self.log.settings = settings.log

    # --- append ---------------------------------------------------------------------------------------------------

    def append(
        self,
        records: memoryview | None,
        *,
        api_version: int,
        now_ms: int,
        verify_transaction: Callable[[Batch], None] | None = None,
    ) -> Appended:
        """A client's batch: checked, written once however often it is sent, and part of its transaction."""
        checked = check_client_batch(records, api_version=api_version, rules=self.settings.rules, now_ms=now_ms)
        return self._append(checked.batch, CLIENT, verify_transaction, now_ms, checked.log_append_time)

    def append_checked(
        self, checked: Checked, *, now_ms: int, verify_transaction: Callable[[Batch], None] | None = None
    ) -> Appended:
        """What `append` does after the check, which knows nothing of this partition and may be done elsewhere."""
        return self._append(checked.batch, CLIENT, verify_transaction, now_ms, checked.log_append_time)

    def append_internal(self, batch_bytes: bytes | memoryview, *, now_ms: int) -> Appended:
        """A coordinator's batch. Its producer, if it has one, is asked for its epoch only."""
        batch = Batch.at(batch_bytes)
        limit = self.settings.rules.max_message_bytes
        if batch.size > limit:
            raise MessageTooLarge(f"the batch has {batch.size} bytes, the topic allows {limit}")
        return self._append(batch, COORDINATOR, None, now_ms, NO_TIMESTAMP)

    def _append(
        self,
        batch: Batch,
        origin: Origin,
        verify_transaction: Callable[[Batch], None] | None,
        now_ms: int,
        log_append_time: int,
    ) -> Appended:
        if batch.size > self.settings.log.segment_bytes:
            limit = self.settings.log.segment_bytes
            raise RecordListTooLarge(f"the batch has {batch.size} bytes, a segment of this topic {limit}")
        draft: Draft | None = None
        if batch.producer_id >= 0:
            decided = self._state.producers.check(batch, origin=origin, verify_transaction=verify_transaction)
            if isinstance(decided, Duplicate):
                return self._repeated(decided)
            draft = decided
        log = self.log
        base = log.end
        log.append(batch, base=base, leader_epoch=self.leader_epoch, now_ms=now_ms)
        if draft is not None:
            self._state.apply(draft, base)
        self._advance()
        return Appended(base, log.end, log.start, log_append_time)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        now_ms: int,
        transaction_version: int = 1,
    ) -> Appended:
        """End the producer's transaction here. One without records here leaves a marker and its epoch."""
        self._state.producers.check_marker(
            producer_id, producer_epoch, coordinator_epoch=coordinator_epoch, transaction_version=transaction_version
        )
        batch = Batch.at(
            build_marker(
                producer_id, producer_epoch, commit=commit, coordinator_epoch=coordinator_epoch, timestamp=now_ms
            )
        )
        base = self.log.end
        self.log.append(batch, base=base, leader_epoch=self.leader_epoch, now_ms=now_ms)
        self._state.apply_marker(batch, base, commit=commit, coordinator_epoch=coordinator_epoch)
        self._advance()
        return Appended(base, self.log.end, self.offsets.start)

    def _repeated(self, duplicate: Duplicate) -> Appended:
        start, first = self.offsets.start, duplicate.original
        return Appended(
            Offset(first.base_offset), Offset(first.last_offset + 1), start, first.timestamp, duplicate=True
        )

    def _advance(self) -> None:
        """The log, the synced offset or a transaction has moved; so do the four offsets."""
        offsets, log = self.offsets, self.log
        end, start = log.end, log.start
        high = end
        if self.settings.hold_high_until_synced:
            high = max(offsets.high, min(log.recovery_point, end))
        transactions = self._transactions
        unstable = None if transactions.idle else transactions.first_unstable(high)
        stable = high if unstable is None else Offset(max(start, min(high, unstable)))
        offsets.move(start=start, stable=stable, high=high, end=end)

    # --- read -----------------------------------------------------------------------------------------------------

    def read(self, offset: Offset, *, max_bytes: int, committed: bool, at_least_one: bool) -> Read:
        """Whole batches from the one with `offset` on. The first may begin before it; readers skip."""
        offsets = self.offsets
        if not offsets.start <= offset <= offsets.end:
            raise OffsetOutOfRange(f"offset {offset} is not in [{offsets.start}, {offsets.end}] of {self.tp}")
        limit = offsets.visible(committed=committed)
        records: FileSlice | None = None
        if offset < limit or offset == offsets.end:
            records = self.log.read(offset, max_bytes=max_bytes, end=limit, at_least_one=at_least_one)
        aborted: list[AbortedTxn] | None = None
        if committed:
            aborted = [] if records is None else lookup.aborted_in(self.log, records, offset, limit)
        return Read(records, offsets.high, offsets.stable, offsets.start, aborted)

    def ahead(self, offset: Offset, *, committed: bool) -> int | None:
        """How many bytes a reader at `offset` may still see; None if they go on in a later segment."""
        return self.log.finder.ahead(offset, self.offsets.visible(committed=committed))

    @property
    def old_until(self) -> Offset:
        """Before this offset there may be messages from before there were batches. Nobody writes such any more."""
        if self._old_until is None:
            self._old_until = lookup.old_until(self.log)
        return self._old_until

    def offset_by_time(self, timestamp: int, *, committed: bool, opening: Open = first_in) -> Found | None:
        """The first record that is not older, its time and its epoch; None if readers cannot see one."""
        return lookup.by_time(self.log, timestamp, self.offsets.visible(committed=committed), opening)

    def max_timestamp_offset(self, *, committed: bool = False, opening: Open = first_in) -> Found | None:
        """The first record with the highest timestamp of all."""
        return lookup.by_max_time(self.log, self.offsets.visible(committed=committed), opening)

    def segment_starts(self) -> list[tuple[Offset, int]]:
        """First offset and highest timestamp of each segment, oldest first."""
        return [(Offset(segment.base), segment.top[0]) for segment in self.log.segments]

    # --- leader epochs --------------------------------------------------------------------------------------------

    def check_leader_epoch(self, current: int) -> None:
        """A client that knows another epoch than ours has old metadata, or we have. -1 does not ask."""
        if current < 0 or current == self.leader_epoch:
            return
        if current < self.leader_epoch:
            raise FencedLeaderEpoch(f"{self.tp} has leader epoch {self.leader_epoch}, asked with {current}")
        raise UnknownLeaderEpoch(f"{self.tp} has leader epoch {self.leader_epoch}, asked with {current}")

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not above, and where it ended; (-1, -1) if that is unknown."""
        return self.log.epochs.end_offset_for(epoch, self.log.end)

    def epoch_at(self, offset: int) -> int:
        return self.log.epochs.epoch_at(offset)

    def diverging(self, fetch_offset: Offset, last_fetched_epoch: int) -> tuple[int, int] | None:
        """Where the log of a reader, who has read up to `fetch_offset` in that epoch, parts from ours; None if not."""
        epoch, end = self.end_offset_for(last_fetched_epoch)
        if epoch < 0 or end < 0:
            raise OffsetOutOfRange(f"the end of epoch {last_fetched_epoch} of {self.tp} is unknown")
        if fetch_offset < self.offsets.start:
            raise OffsetOutOfRange(f"offset {fetch_offset} is before {self.offsets.start}, the start of {self.tp}")
        return (epoch, end) if epoch < last_fetched_epoch or end < fetch_offset else None

    # --- upkeep ---------------------------------------------------------------------------------------------------

    def start_without(self, before: int) -> Offset:
        """Where the log would start without the records before an offset, -1: without all that can be read."""
        self.check_online()
        offsets = self.offsets
        target = offsets.high if before == -1 else Offset(before)
        if not 0 <= target <= offsets.high:
            raise OffsetOutOfRange(f"cannot delete up to {before}, the high watermark of {self.tp} is {offsets.high}")
        return max(target, offsets.start)

    def truncate_start(self, offset: Offset) -> Offset:
        """Forget the records before `offset`, which is good: see above. The new log start."""
        if offset > self.offsets.start:
            self.log.truncate_start(offset)
            self._advance()
        return self.offsets.start

    def upkeep(self, now_ms: int) -> None:
        """What time alone brings about."""
        roll_if_old(self.log, now_ms)
        if now_ms - self._expired_ms >= self.settings.producer_expiration_check_ms:
            self._expired_ms = now_ms
            self._state.producers.expire(now_ms, self.settings.producer_expiration_ms)

    @property
    def producer_count(self) -> int:
        return len(self._state.producers)

    def describe_producers(self) -> list[ActiveProducer]:
        return active(self._state.producers)

    def last_records(self) -> dict[int, LastRecord]:
        """What compaction must leave of each producer, so that a restart finds its sequence and its epoch."""
        return {
            producer_id: LastRecord(known.batches[-1].last_offset if known.batches else None, known.epoch)
            for producer_id, known in self._state.producers
        }

    def open_transactions(self) -> dict[int, int]:
        """Producer -> where its open transaction began."""
        return self._state.transactions.open_since()

    # --- durability -----------------------------------------------------------------------------------------------

    @property
    def synced_to(self) -> Offset:
        return self.log.recovery_point

    def unsynced(self) -> SyncJob | None:
        """What a thread has to do so that everything written is safe; then tell `synced`."""
        return self.log.unflushed()

    def synced(self, upto: Offset) -> None:
        self.log.flushed(upto)
        self._advance()

    def check_online(self) -> None:
        if self.log.offline:
            raise self.log.offline_error()

    def go_offline(self, reason: str) -> None:
        """Nothing is written any more; what readers could see they still can."""
        self.log.go_offline(reason)

    def checkpoint_state(self) -> tuple[Offset, Offset, Offset]:
        """Recovery point, log start, high watermark."""
        return self.log.recovery_point, self.offsets.start, self.offsets.high

    def close(self, clean: bool) -> None:
        """`clean`: the next start need not look at anything again. StorageFailed if that cannot be promised."""
        if clean and self.log.offline and self.log.recovered.damage is None:
            self.log.close(clean=False)
            raise StorageFailed(self.log.offline)
        if clean and self.log.end > self.log.segments[0].base:
            self._snapshot(self.log.end)
        self.log.close(clean)

    def delete(self) -> None:
        """The topic is gone: whoever still holds this partition hears UNKNOWN_TOPIC_OR_PARTITION."""
        self.log.deleted = True
        self.log.close(clean=False)

    def _snapshot(self, offset: Offset) -> None:
        """A cache: if the disk refuses it, the next start replays more."""
        if offset != self._snapshot_at:
            with contextlib.suppress(OSError):
                self.log.aborted.save()
                snapshots.write(self.log.disk, self.log.path, offset, self._state.producers, sync=False)
                self._snapshot_at = offset
