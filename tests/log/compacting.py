"""A compacted partition for tests, and what a reader makes of it."""

from __future__ import annotations

from pathlib import Path

from broker_lite.ids import Offset, TopicId, TopicPartition
from broker_lite.log.compaction import Plan, Round, plan
from broker_lite.log.disk import Disk, RealDisk
from broker_lite.log.keymap import KeyMap
from broker_lite.log.settings import DAY_MS, Cleanup, LogSettings
from broker_lite.log.spans import Pace
from broker_lite.partition.partition import Partition, PartitionSettings
from broker_lite.records.batch import Batch, walk
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.compression import Codec
from broker_lite.records.record import Record, records_of

NOW = 1_700_000_000_000
TP = TopicPartition("t", 0)
Put = tuple[bytes | None, bytes | None]


def unhurried() -> None:
    pass


class Kept:
    """The partition, and how far it is clean."""

    def __init__(
        self,
        root: Path,
        disk: Disk | None = None,
        *,
        segment_bytes: int = 1 << 20,
        recovery_point: int | None = 0,
        **cleanup: float,
    ) -> None:
        self.path = root / "t-0"
        self.disk: Disk = disk or RealDisk()
        wanted = {"min_dirty_ratio": 0.0, "delete_retention_ms": DAY_MS, **cleanup}
        self.settings = PartitionSettings(
            log=LogSettings(
                segment_bytes=segment_bytes,
                index_interval_bytes=200,
                cleanup=Cleanup(compact=True, delete=False, **wanted),  # type: ignore[arg-type]
            ),
            producer_expiration_ms=1 << 60,
        )
        self.first_dirty = 0
        self.sequences: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.partition = self.open(clean=False, recovery_point=recovery_point)

    def open(self, *, clean: bool, recovery_point: int | None = 0) -> Partition:
        self.partition = Partition.open(
            TP,
            TopicId(bytes(range(16))),
            self.path,
            self.disk,
            self.settings,
            clean=clean,
            recovery_point=None if recovery_point is None else Offset(recovery_point),
            now_ms=NOW,
        )
        return self.partition

    def restart(self, *, kill: bool, forget_snapshots: bool = False) -> Partition:
        point = self.partition.log.recovery_point
        self.partition.close(clean=not kill)
        if forget_snapshots:
            for name in self.disk.list(self.path):
                if name.endswith((".snapshot", ".batches")):
                    self.disk.remove(self.path / name)
        return self.open(clean=not kill, recovery_point=point)

    # --- writing --------------------------------------------------------------------------------------------------

    def put(
        self,
        *puts: Put,
        producer: int = -1,
        transactional: bool = False,
        timestamp: int = NOW,
        codec: Codec = Codec.NONE,
        headers: tuple[tuple[str, bytes | None], ...] = (),
    ) -> int:
        """One batch; the offset of its first record."""
        sequence = self.sequences.get(producer, 0) if producer >= 0 else -1
        batch = build_batch(
            [
                NewRecord(key, value, headers=headers, timestamp=timestamp + number)
                for number, (key, value) in enumerate(puts)
            ],
            timestamp=timestamp,
            codec=codec,
            producer_id=producer,
            producer_epoch=self.epochs.get(producer, 0) if producer >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
        )
        appended = self.partition.append(memoryview(batch), api_version=9, now_ms=NOW)
        if producer >= 0:
            self.sequences[producer] = sequence + len(puts)
        return appended.base

    def end(self, producer: int, *, commit: bool, bump: bool = False) -> int:
        epoch = self.epochs.get(producer, 0)
        if bump:
            epoch = self.epochs[producer] = epoch + 1
            self.sequences[producer] = 0
        return self.partition.append_marker(producer, epoch, commit=commit, coordinator_epoch=0, now_ms=NOW).base

    def roll(self) -> None:
        self.partition.log.roll(NOW)

    # --- compacting -----------------------------------------------------------------------------------------------

    def plan(self, *, now_ms: int = NOW, flush: bool = True) -> Plan | None:
        log = self.partition.log
        if flush:
            log.flush()
        return plan(log, first_dirty=self.first_dirty, stable=self.partition.offsets.stable, now_ms=now_ms)

    def compact(
        self, *, now_ms: int = NOW, max_keys: int = 1000, pace: Pace = unhurried, roll: bool = True
    ) -> dict[str, int] | None:
        """A whole round, here and now. What it did; None if there was nothing to do."""
        if roll:
            self.roll()
        chosen = self.plan(now_ms=now_ms)
        if chosen is None:
            return None
        work = Round(
            self.partition.log,
            chosen,
            last_records=self.partition.last_records(),
            now_ms=now_ms,
            keys=KeyMap(max_keys),
        )
        try:
            all(work.read_keys(part, pace) for part in work.parts())
            for group in work.groups():
                work.begin(group)
                work.sift(group, pace)
                work.promote()
                work.commit(group)
        finally:
            work.end()
        self.first_dirty = work.clean_upto
        return work.facts

    # --- reading --------------------------------------------------------------------------------------------------

    def batches(self) -> list[Batch]:
        """As a consumer fetches them, from the start on."""
        found: list[Batch] = []
        offset = int(self.partition.offsets.start)
        while offset < self.partition.offsets.high:
            read = self.partition.read(Offset(offset), max_bytes=300, committed=False, at_least_one=True)
            assert read.records is not None, f"a reader is stuck at {offset} of {self.partition.offsets}"
            found += walk(read.records.read_all())
            read.records.release()
            offset = found[-1].next_offset
        return found

    def records(self) -> list[Record]:
        return [record for batch in self.batches() if not batch.is_control for record in records_of(batch)]

    def committed(self) -> list[Record]:
        """What a read_committed consumer gives its application."""
        found: list[Record] = []
        offset = int(self.partition.offsets.start)
        while offset < self.partition.offsets.stable:
            read = self.partition.read(Offset(offset), max_bytes=300, committed=True, at_least_one=True)
            assert read.records is not None, f"a reader is stuck at {offset} of {self.partition.offsets}"
            batches = list(walk(read.records.read_all()))
            read.records.release()
            starts = {(one.producer_id, one.first_offset, one.last_offset) for one in read.aborted or ()}
            for batch in batches:
                aborted = any(
                    batch.producer_id == producer and first <= batch.base_offset <= last
                    for producer, first, last in starts
                )
                if not batch.is_control and not (batch.is_transactional and aborted):
                    found += [one for one in records_of(batch) if one.offset >= offset]
            offset = batches[-1].next_offset
        return found

    def fold(self) -> dict[bytes, bytes]:
        values: dict[bytes, bytes] = {}
        for record in self.committed():
            if record.key is not None:
                if record.value is None:
                    values.pop(record.key, None)
                else:
                    values[record.key] = record.value
        return values
