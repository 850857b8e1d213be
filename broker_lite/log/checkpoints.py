"""The small files of a data folder, read and written through the disk.

All are written atomically: after a crash there is the old one or the new one.  One that cannot be read is as good
as missing, because each is a shortcut: without a recovery point more is scanned, without a high watermark it is the
log's end.  The exception is the log start, whose loss brings back what DeleteRecords deleted; so it is written
durably before the answer, and `read_log_starts` refuses a damaged one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from broker_lite.ids import TopicId, TopicPartition
from broker_lite.log import layout
from broker_lite.log.disk import Disk


def _read(disk: Disk, path: Path) -> bytes | None:
    try:
        return disk.read_bytes(path)
    except FileNotFoundError:
        return None


def read_offsets(disk: Disk, path: Path) -> dict[TopicPartition, int]:
    """Any of the three offset checkpoints; empty if it is missing or unreadable."""
    try:
        return layout.parse_offsets(_read(disk, path) or b"")
    except ValueError:
        return {}


def read_log_starts(disk: Disk, root: Path) -> dict[TopicPartition, int] | None:
    """None if the file has lost its bytes: a power cut may do that to one that was not synced. ValueError if it is
    damaged in any other way."""
    data = _read(disk, root / layout.LOG_STARTS)
    if data is None:
        return {}
    if not data.strip(b"\0"):
        return None
    offsets = layout.parse_offsets(data)
    for tp, offset in offsets.items():
        if offset < 0 or tp.partition < 0:
            raise ValueError(f"{tp} starts at offset {offset}")
    return offsets


def write_offsets(disk: Disk, path: Path, offsets: Mapping[TopicPartition, int], *, sync: bool) -> None:
    disk.write_atomic(path, layout.format_offsets(offsets), sync=sync)


def read_partition_metadata(disk: Disk, folder: Path) -> TopicId | None:
    try:
        return layout.parse_partition_metadata(_read(disk, folder / layout.PARTITION_METADATA) or b"")
    except ValueError:
        return None


def write_partition_metadata(disk: Disk, folder: Path, topic_id: TopicId, *, sync: bool) -> None:
    disk.write_atomic(folder / layout.PARTITION_METADATA, layout.format_partition_metadata(topic_id), sync=sync)


def read_meta_properties(disk: Disk, root: Path) -> dict[str, str] | None:
    data = _read(disk, root / layout.META_PROPERTIES)
    return None if data is None else layout.parse_properties(data)


def write_meta_properties(disk: Disk, root: Path, values: Mapping[str, str]) -> None:
    disk.write_atomic(root / layout.META_PROPERTIES, layout.format_properties(values), sync=True)


def is_clean_shutdown(disk: Disk, root: Path) -> bool:
    return disk.exists(root / layout.CLEAN_SHUTDOWN)


def take_clean_shutdown(disk: Disk, root: Path) -> bool:
    """Whether the last run ended cleanly. The mark is gone afterwards, so it never vouches for two runs."""
    path = root / layout.CLEAN_SHUTDOWN
    if not is_clean_shutdown(disk, root):
        return False
    disk.remove(path)
    disk.sync_dir(root)
    return True


def mark_clean_shutdown(disk: Disk, root: Path, *, broker_epoch: int = -1) -> None:
    """The very last thing a broker does."""
    disk.write_atomic(root / layout.CLEAN_SHUTDOWN, layout.format_clean_shutdown(broker_epoch), sync=True)
