"""The producer table on disk, so that a restart need not read the whole log.

    00000000000000000042.snapshot   Kafka's format: each producer with its last batch, as of offset 42
    00000000000000000042.batches    ours: the batches that Kafka's format has no room for, up to five a producer

A snapshot is taken when a segment is rolled and at a clean stop, and read together with the batches that follow it
in the log.  Both files are caches.  One that cannot be read is as good as missing: without a snapshot an older one
or the whole log is replayed; without the file beside it only the four older batches of each producer are forgotten,
which is what every restart of Kafka does.

    .batches: version int16 (0), crc uint32 (CRC-32C of the rest), then per producer
              id int64, epoch int16, count int8, and per batch as in a snapshot:
              last sequence int32, last offset int64, offset delta int32, timestamp int64
"""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

from broker_lite.log import layout
from broker_lite.log.disk import Disk
from broker_lite.log.layout import ProducerEntry
from broker_lite.partition.producers import NO_TRANSACTION, Producer, Producers, Remembered
from broker_lite.records.batch import checksum

BATCHES = ".batches"
KEPT = 3
"""Older ones are only needed when the newest cannot be read."""

_HEAD = struct.Struct(">hI")
_PRODUCER = struct.Struct(">qhb")
_BATCH = struct.Struct(">iqiq")
_VERSION = 0


def write(disk: Disk, folder: Path, offset: int, producers: Producers, *, sync: bool) -> None:
    """The table as of `offset`; what Kafka's format cannot hold first, so that a snapshot has its companion."""
    if len(producers):
        disk.write_atomic(folder / layout.file_name(offset, BATCHES), format_batches(producers), sync=sync)
    entries = [
        ProducerEntry(
            producer_id,
            known.epoch,
            known.last_sequence,
            known.batches[-1].last_offset if known.batches else -1,
            known.batches[-1].offset_delta if known.batches else 0,
            known.last_timestamp,
            known.coordinator_epoch,
            known.txn_first,
        )
        for producer_id, known in producers
    ]
    disk.write_atomic(folder / layout.file_name(offset, layout.SNAPSHOT), layout.format_snapshot(entries), sync=sync)
    with contextlib.suppress(OSError):
        for old in offsets(disk, folder)[KEPT:]:
            remove(disk, folder, old)


def offsets(disk: Disk, folder: Path) -> list[int]:
    """Of the snapshots that are there, the newest first."""
    named = (layout.parse_file_name(name) for name in disk.list(folder))
    return sorted((offset for offset, suffix in filter(None, named) if suffix == layout.SNAPSHOT), reverse=True)


def remove(disk: Disk, folder: Path, offset: int) -> None:
    for suffix in (layout.SNAPSHOT, BATCHES):
        disk.remove(folder / layout.file_name(offset, suffix))


def load(disk: Disk, folder: Path, *, start: int, end: int, upto: int) -> tuple[int, Producers] | None:
    """The newest table as of an offset from `start` to `upto`, and as of which; None if there is none.

    The log holds offsets from `start` to `end`. Snapshots that can never be used are removed: a broken one, one that
    knows batches which the log has lost, and one from before the log's start, because between it and the start there
    may have been batches that nobody can read again.
    """
    for offset in offsets(disk, folder):
        if upto < offset <= end:
            continue
        if start <= offset <= upto:
            try:
                entries = layout.parse_snapshot(disk.read_bytes(folder / layout.file_name(offset, layout.SNAPSHOT)))
            except (ValueError, OSError):
                pass
            else:
                return offset, _table(entries, _read_batches(disk, folder, offset))
        remove(disk, folder, offset)
    return None


def _read_batches(disk: Disk, folder: Path, offset: int) -> dict[tuple[int, int], list[Remembered]]:
    try:
        return parse_batches(disk.read_bytes(folder / layout.file_name(offset, BATCHES)))
    except (ValueError, OSError):
        return {}


def _table(entries: list[ProducerEntry], beside: dict[tuple[int, int], list[Remembered]]) -> Producers:
    producers = Producers()
    for entry in entries:
        known = Producer(
            entry.producer_epoch,
            entry.coordinator_epoch,
            entry.timestamp,
            entry.current_txn_first_offset if entry.current_txn_first_offset >= 0 else NO_TRANSACTION,
        )
        if entry.last_offset >= 0:
            last = Remembered(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)
            five = beside.get((entry.producer_id, entry.producer_epoch), [])
            # Believed only if it ends with the same batch: the snapshot may have come from Kafka since.
            known.batches.extend(five if five and five[-1][:3] == last[:3] else [last])
        producers.add(entry.producer_id, known)
    return producers


def format_batches(producers: Producers) -> bytes:
    parts = []
    for producer_id, known in producers:
        parts.append(_PRODUCER.pack(producer_id, known.epoch, len(known.batches)))
        parts += [_BATCH.pack(*batch) for batch in known.batches]
    body = b"".join(parts)
    return _HEAD.pack(_VERSION, checksum(body)) + body


def parse_batches(data: bytes) -> dict[tuple[int, int], list[Remembered]]:
    """(producer, epoch) -> its batches, the oldest first. ValueError if the file is not what was written."""
    if len(data) < _HEAD.size:
        raise ValueError(f"the file of batches has {len(data)} bytes, at least {_HEAD.size} are due")
    version, crc = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    if version != _VERSION or checksum(body) != crc:
        raise ValueError(f"the file of batches has version {version} and checksum {checksum(body)}, not {crc}")
    found: dict[tuple[int, int], list[Remembered]] = {}
    pos = 0
    try:
        while pos < len(body):
            producer_id, epoch, count = _PRODUCER.unpack_from(body, pos)
            pos += _PRODUCER.size
            if count < 0:
                raise ValueError(f"producer {producer_id} has {count} batches")
            until = pos + count * _BATCH.size
            found[producer_id, epoch] = [
                Remembered(*_BATCH.unpack_from(body, at)) for at in range(pos, until, _BATCH.size)
            ]
            pos = until
    except struct.error as error:
        raise ValueError(f"the file of batches is cut: {error}") from None
    return found
