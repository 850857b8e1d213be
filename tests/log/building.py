"""Logs for tests: real files, small batches, and what a reader sees of them."""

from __future__ import annotations

from pathlib import Path

from broker_lite.ids import Offset
from broker_lite.log import opening
from broker_lite.log.disk import Disk, RealDisk
from broker_lite.log.log import Log, LogSettings
from broker_lite.log.settings import Cleanup
from broker_lite.records.batch import Batch, walk
from broker_lite.records.build import NewRecord, build_batch

NOW = 1_700_000_000_000


def batch(
    *values: bytes, timestamp: int = NOW, producer_id: int = -1, control: bool = False, transactional: bool = False
) -> Batch:
    records = [NewRecord(None, value) for value in values or (b"hello",)]
    data = build_batch(
        records,
        timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        control=control,
        transactional=transactional,
    )
    return Batch.at(memoryview(data))


def open_log(
    path: Path,
    disk: Disk | None = None,
    *,
    clean: bool = False,
    recovery_point: int | None = None,
    log_start: int | None = None,
    segment_bytes: int = 1 << 30,
    segment_ms: int = 7 * 86_400_000,
    index_interval_bytes: int = 100,
    index_max_bytes: int = 10 << 20,
    sync_rolls: bool = False,
    segment_jitter_ms: int = 0,
    cut_damage: bool = False,
    cleanup: Cleanup | None = None,
    make: bool = True,
) -> Log:
    settings = LogSettings(
        segment_bytes=segment_bytes,
        segment_ms=segment_ms,
        index_interval_bytes=index_interval_bytes,
        index_max_bytes=index_max_bytes,
        sync_rolls=sync_rolls,
        segment_jitter_ms=segment_jitter_ms,
        cut_damage=cut_damage,
        cleanup=cleanup or Cleanup(),
    )
    return opening.open_log(
        path,
        disk or RealDisk(),
        settings,
        clean=clean,
        recovery_point=None if recovery_point is None else Offset(recovery_point),
        log_start=None if log_start is None else Offset(log_start),
        now_ms=NOW,
        make=make,
    )


def append(log: Log, *values: bytes, timestamp: int = NOW, epoch: int = 0) -> Offset:
    """The offset of the first record."""
    base = log.end
    log.append(batch(*values, timestamp=timestamp), base=base, leader_epoch=epoch, now_ms=NOW)
    return base


def fill(log: Log, count: int, *, epoch: int = 0) -> None:
    """Batches of one, two, three, one, two… records; the timestamp is NOW plus the number of the batch."""
    for number in range(count):
        values = [b"value %d.%d" % (number, record) for record in range(number % 3 + 1)]
        append(log, *values, timestamp=NOW + number, epoch=epoch)


def read_bytes(log: Log, offset: int, *, max_bytes: int = 1 << 20, end: int | None = None) -> bytes:
    piece = log.read(Offset(offset), max_bytes=max_bytes, end=log.end if end is None else Offset(end))
    if piece is None:
        return b""
    try:
        return piece.read_all()
    finally:
        piece.release()


def bases(data: bytes) -> list[int]:
    return [one.base_offset for one in walk(data)]


def read_all(log: Log, *, max_bytes: int = 400) -> bytes:
    """As a consumer does: fetch, go on after the last batch, until there is nothing."""
    parts = []
    offset = int(log.start)
    while offset < log.end and (data := read_bytes(log, offset, max_bytes=max_bytes)):
        parts.append(data)
        offset = [one.next_offset for one in walk(data)][-1]
    return b"".join(parts)
