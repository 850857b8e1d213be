"""A partition on a disk, its batches in one line each, and a disk that can run full."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path

from broker_lite.ids import Offset, TopicId, TopicPartition
from broker_lite.log.disk import Disk, RealDisk
from broker_lite.log.memory_disk import Bytes, MemoryDisk, MemoryFile
from broker_lite.partition.answers import Appended, Read
from broker_lite.partition.partition import Partition, PartitionSettings
from broker_lite.records.batch import Batch, walk
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.compression import Codec

NOW = 1_714_000_000_000
TOPIC = TopicId(bytes(range(1, 17)))
TP = TopicPartition("orders", 0)


def batch(
    *values: bytes,
    producer: int = -1,
    epoch: int = 0,
    sequence: int = -1,
    transactional: bool = False,
    timestamp: int = NOW,
    times: Sequence[int] | None = None,
    codec: Codec = Codec.NONE,
) -> memoryview:
    records = [NewRecord(b"k", value) for value in values or (b"x",)]
    for record, time in zip(records, times or (), strict=False):
        record.timestamp = time
    return memoryview(
        build_batch(
            records,
            timestamp=timestamp,
            codec=codec,
            producer_id=producer,
            producer_epoch=epoch if producer >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


class House:
    """Opens the partition, and opens it again after a stop or a kill."""

    def __init__(self, folder: Path, disk: Disk | None = None, settings: PartitionSettings | None = None) -> None:
        self.folder = folder / "orders-0"
        self.disk: Disk = RealDisk() if disk is None else disk
        self.settings = settings or PartitionSettings()
        self.partition = self.open()

    def open(
        self, *, clean: bool = False, recovery_point: int | None = None, log_start: int | None = None, now: int = NOW
    ) -> Partition:
        self.partition = Partition.open(
            TP,
            TOPIC,
            self.folder,
            self.disk,
            self.settings,
            clean=clean,
            recovery_point=None if recovery_point is None else Offset(recovery_point),
            log_start=None if log_start is None else Offset(log_start),
            now_ms=now,
        )
        return self.partition

    def restart(self, *, now: int = NOW) -> Partition:
        self.partition.close(clean=True)
        point, start, _ = self.partition.checkpoint_state()
        return self.open(clean=True, recovery_point=point, log_start=start, now=now)

    def kill(self) -> Partition:
        point, start, _ = self.partition.checkpoint_state()
        self.partition.close(clean=False)
        return self.open(recovery_point=point, log_start=start)

    def append(self, one: memoryview, verify: Callable[[Batch], None] | None = None) -> Appended:
        return self.partition.append(one, api_version=9, now_ms=NOW, verify_transaction=verify)

    def end(self, producer: int, epoch: int = 0, *, commit: bool = True, coordinator: int = 0) -> Appended:
        return self.partition.append_marker(producer, epoch, commit=commit, coordinator_epoch=coordinator, now_ms=NOW)

    def read(self, offset: int, *, committed: bool = False, max_bytes: int = 1 << 20, one: bool = True) -> Read:
        return self.partition.read(Offset(offset), max_bytes=max_bytes, committed=committed, at_least_one=one)

    def bases(self, offset: int = 0, *, committed: bool = False, max_bytes: int = 1 << 20) -> list[int]:
        """Base offsets of the batches that one read returns."""
        records = self.read(offset, committed=committed, max_bytes=max_bytes).records
        if records is None:
            return []
        found = [one.base_offset for one in walk(records.read_all())]
        records.release()
        return found

    @property
    def all_four(self) -> tuple[int, int, int, int]:
        offsets = self.partition.offsets
        return offsets.start, offsets.stable, offsets.high, offsets.end


def delete_records(partition: Partition, before: int) -> Offset:
    """What DeleteRecords does, without the checkpoint between the two steps."""
    return partition.truncate_start(partition.start_without(before))


class _File(MemoryFile):
    __slots__ = ("_disk",)

    def __init__(self, disk: FullDisk, file: MemoryFile) -> None:
        super().__init__(file.path, file._content)
        self._disk = disk

    def append(self, buffers: Sequence[Bytes]) -> None:
        if self._disk.full:
            super().append([bytes(buffers[0])[:7]])  # a part of it is written, as disks do
            raise OSError(errno.ENOSPC, "no space left")
        super().append(buffers)


class FullDisk(MemoryDisk):
    """Takes no more appends while `full`."""

    full = False

    def open_append(self, path: Path, *, size: int | None = None) -> _File:
        return _File(self, super().open_append(path, size=size))
