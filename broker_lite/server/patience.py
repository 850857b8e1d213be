"""How long a connection has been quiet, and for how long one of its frames has been coming.

Whoever moves something only says so; the time is looked at when the sweeper comes by, about once a second.
"""

from __future__ import annotations

from broker_lite.server.inbox import Inbox
from broker_lite.server.limits import SLOWEST


class Patience:
    __slots__ = ("_frame", "_frame_since", "_quiet_since", "stirred")

    def __init__(self) -> None:
        self.stirred = True
        """Something moved since the sweeper came by."""
        self._quiet_since = self._frame_since = 0.0
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
        if self._frame != number or inbox.short:
            self._frame = number
            self._frame_since = now
            return False
        return now - self._frame_since > read_frame_ms / 1000 + inbox.filled / SLOWEST

    def begin_again(self) -> None:
        """We did not read for a while, so the frame could not come."""
        self._frame = -1
