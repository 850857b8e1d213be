"""How long a connection has been quiet, and whether one of its frames comes too slowly.

Whoever moves something only says so; the time is looked at when the sweeper comes by, about once a second.

A frame must come at `SLOWEST` bytes a second or better, and one that falls behind is closed after the time-out. What it
brought before that does not count: 90 MB and then nothing would otherwise hold 90 MB of everybody's budget for an hour
and a half. While others stand in line for those bytes, the frame must come faster and is waited for less long.
"""

from __future__ import annotations

from broker_lite.server.inbox import Inbox

SLOWEST = 16_384
"""Bytes a second; a frame that comes in slower has `request.read.timeout.ms`, not a second more."""
SLOWEST_IN_DEMAND = 1_048_576
"""The same while others wait for its memory."""
IN_DEMAND_S = 5.0
"""How long a frame may fall behind then."""


class Patience:
    __slots__ = ("_fair_filled", "_fair_until", "_frame", "_quiet_since", "stirred")

    def __init__(self) -> None:
        self.stirred = True
        """Something moved since the sweeper came by."""
        self._quiet_since = self._fair_until = 0.0
        self._fair_filled = 0
        """Until then the frame came fast enough, and so much of it had come."""
        self._frame = -1
        """The number of the frame that was coming when the sweeper came by."""

    def quiet_for(self, now: float) -> float:
        """Seconds."""
        if self.stirred:
            self.stirred = False
            self._quiet_since = now
        return now - self._quiet_since

    def is_late(self, inbox: Inbox, number: int, now: float, read_frame_ms: int) -> bool:
        """Whether a frame is coming, and more slowly than anybody's line is. While it waits for memory it is not."""
        if not inbox.has_partial:
            return False
        slowest, most = SLOWEST, read_frame_ms / 1000
        if inbox.in_demand:
            slowest, most = SLOWEST_IN_DEMAND, min(most, IN_DEMAND_S)
        behind, size = now - self._fair_until, inbox.partial_size
        if self._frame != number or inbox.short or size - self._fair_filled >= slowest * behind:
            self._frame = number
            self._fair_until, self._fair_filled = now, size
            return False
        return behind > most

    def begin_again(self) -> None:
        """We did not read for a while, so the frame could not come."""
        self._frame = -1
