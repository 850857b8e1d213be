"""When a segment is full or old enough that the next batch begins another one."""

from __future__ import annotations

from zlib import crc32

from broker_lite.errors import RecordListTooLarge
from broker_lite.log.layout import MAX_RELATIVE
from broker_lite.log.segment import Segment
from broker_lite.log.settings import LogSettings


def roll_is_due(settings: LogSettings, active: Segment, size: int, last: int, max_timestamp: int, now_ms: int) -> bool:
    """Whether a batch of `size` bytes up to offset `last` must not go into `active`. RecordListTooLarge: nowhere."""
    filled = active.size
    if filled + size > settings.segment_bytes:
        if size > settings.segment_bytes:
            limit = settings.segment_bytes
            raise RecordListTooLarge(f"the batch has {size} bytes, a segment of this topic {limit}")
        return filled > 0
    if last - active.base > MAX_RELATIVE:
        return True
    if not filled:
        return False
    # Kafka's clock of a segment is the batches' own, unless they have none.
    first = active.first_timestamp if active.first is None else active.first
    waited = max_timestamp - first if first >= 0 else now_ms - active.created_ms
    # Nearly every batch finds a segment that is too young by any count, and nothing needs to be worked out.
    maybe = waited > settings.segment_ms - settings.segment_jitter_ms or settings.cleanup.compact
    if maybe and waited > settings.roll_ms - jitter(settings, active):
        return True
    return filled - active.entry_at > active.interval and active.index.is_full(settings.index_max_bytes)


def is_old(settings: LogSettings, active: Segment, now_ms: int) -> bool:
    """Whether a segment that nobody writes to should be sealed, so that it can grow too old to keep."""
    return active.size > 0 and now_ms - active.created_ms > settings.roll_ms - jitter(settings, active)


def jitter(settings: LogSettings, active: Segment) -> int:
    """How much sooner this segment rolls than others of its age, so that they do not all roll together.

    Chance, but the same at each look: what counts is that two segments differ.
    """
    bound = min(settings.segment_jitter_ms, settings.segment_ms)
    return crc32(str(active.path).encode()) % bound if bound > 0 else 0
