"""When a segment is full or old enough that the next batch begins another one."""

from __future__ import annotations

from dataclasses import dataclass

from broker_lite.errors import RecordListTooLarge
from broker_lite.log.layout import MAX_RELATIVE
from broker_lite.log.segment import Segment


@dataclass(slots=True)
class LogSettings:
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    index_max_bytes: int = 10 << 20
    sync_rolls: bool = False
    """A sealed segment is on the platter before the next one is written to, so that a crash tears only the last one."""


def roll_is_due(settings: LogSettings, active: Segment, size: int, last: int, max_timestamp: int, now_ms: int) -> bool:
    """Whether a batch of `size` bytes up to offset `last` must not go into `active`. RecordListTooLarge: nowhere."""
    if active.size + size > settings.segment_bytes:
        if size > settings.segment_bytes:
            limit = settings.segment_bytes
            raise RecordListTooLarge(f"the batch has {size} bytes, a segment of this topic {limit}")
        return active.size > 0
    if last - active.base > MAX_RELATIVE:
        return True
    if not active.size:
        return False
    # Kafka's clock of a segment is the batches' own, unless they have none.
    first = active.first_timestamp
    waited = max_timestamp - first if first >= 0 else now_ms - active.created_ms
    return waited > settings.segment_ms or active.index.is_full(settings.index_max_bytes)
