"""What a start after a crash tells people: how much has to be read again, how far it is, and what was found."""

from __future__ import annotations

from pathlib import Path

from broker_lite.clock import Clock
from broker_lite.ids import TopicPartition
from broker_lite.log import layout
from broker_lite.log.disk import Disk
from broker_lite.log.log import Log
from broker_lite.logs import get_logger

log = get_logger(__name__)

MUCH = 256 << 20
"""Bytes of one log that take long enough to be announced."""
EVERY = 2.0
"""Seconds between two lines of progress."""


class RecoveryNews:
    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._logs = self._bytes = 0
        self._said = clock.monotonic()

    def before(self, tp: TopicPartition, folder: Path, recovery_point: int | None) -> None:
        """`folder` is about to be opened, and not after a clean stop."""
        if self._disk.exists(folder) and (left := unflushed_bytes(self._disk, folder, recovery_point or 0)) >= MUCH:
            log.info("recovery.scanning", partition=str(tp), bytes=left)

    def after(self, tp: TopicPartition, opened: Log) -> None:
        found = opened.recovered
        if found.torn is not None:
            log.warning(
                "log.torn_tail_cut",
                partition=str(tp),
                offset=found.torn.offset,
                bytes=found.torn.bytes,
                kept=found.torn.path.name if found.torn.bytes else None,
            )
        if found.damage is not None:
            log.error("log.damaged", partition=str(tp), offset=found.damage.offset, reason=str(found.damage))
        self._logs += 1
        self._bytes += found.scanned_bytes
        if found.scanned_from is not None and self._clock.monotonic() - self._said >= EVERY:
            self._said = self._clock.monotonic()
            log.info("recovery.progress", partitions=self._logs, bytes=self._bytes)


def unflushed_bytes(disk: Disk, folder: Path, recovery_point: int) -> int:
    """Of the segments that may hold something from the recovery point on."""
    segments = sorted(
        (known[0], size)
        for name, size in disk.sizes(folder).items()
        if (known := layout.parse_file_name(name)) and known[1] == layout.LOG
    )
    ends = [base for base, _ in segments[1:]]
    return sum(size for (_, size), end in zip(segments, [*ends, None]) if end is None or end > recovery_point)
