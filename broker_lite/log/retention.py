"""Which of a log's oldest segments nobody has to keep any longer.

A segment may go when what lies before the high watermark covers it and one of these is true:

- its newest record is older than `retention.ms`.  The records' own time counts: one that claims to come from the future
  keeps its segment, and all after it, until that future has come;
- without it the log still has `retention.bytes`.

Segments go from the oldest on, so what is left has no hole.  The active one goes too if its turn comes; whoever drops
it rolls first.
"""

from __future__ import annotations

from broker_lite.ids import Offset
from broker_lite.log.log import Log
from broker_lite.log.rolling import is_old
from broker_lite.log.segment import Segment
from broker_lite.log.settings import Cleanup


def new_start(log: Log, *, high: Offset, now_ms: int, at_most: int) -> Offset | None:
    """Where the log may begin if up to `at_most` segments are dropped; None if none may be."""
    cleanup = log.settings.cleanup
    if not cleanup.delete or log.offline or (cleanup.retention_ms < 0 and cleanup.retention_bytes < 0):
        return None
    spare = log.size_bytes - cleanup.retention_bytes if cleanup.retention_bytes >= 0 else -1
    start: Offset | None = None
    segments = log.segments
    for number, segment in enumerate(segments[:at_most]):
        active = number + 1 == len(segments)
        upto = log.end if active else segment.next_offset
        if upto > high or (active and not segment.size):
            break
        if spare >= segment.size:
            spare -= segment.size
        elif not is_expired(segment, cleanup, now_ms):
            break
        start = Offset(upto)
        if not active:
            segment.forget_index()  # loaded for its last timestamp only
    return start


def is_expired(segment: Segment, cleanup: Cleanup, now_ms: int) -> bool:
    if cleanup.retention_ms < 0:
        return False
    newest = segment.top[0]
    return now_ms - (newest if newest >= 0 else segment.created_ms) > cleanup.retention_ms


def drop_expired(log: Log, start: Offset, now_ms: int) -> None:
    """Before `start` becomes the log's start: what is dropped must not be the segment that grows."""
    if start == log.end:
        log.roll(now_ms)


def roll_if_old(log: Log, now_ms: int) -> bool:
    """Seal an active segment that nobody writes to any more, so that it can grow too old to keep.

    By our own clock: records from the past must not roll a segment at every look.  Index files are brought up to date
    on the way, for those who look at the folder of a running broker."""
    log.save_index()
    old = not log.offline and is_old(log.settings, log.segments[-1], now_ms)
    if old:
        log.roll(now_ms)
    return old
