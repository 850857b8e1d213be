"""Wall time that nobody can set forward by mistake.

What is deleted because of its age is gone.  So whoever deletes does not ask the wall clock but this one, which follows
it as long as the two clocks agree on how much time passes.  If the wall clock leaps ahead (somebody set it, a battery
died, a laptop slept), this one goes on as if nothing had happened, and believes the new time when it has held for a
day.  A step back is believed at once: it makes everything younger, and nothing is deleted.
"""

from __future__ import annotations

from broker_lite.clock import Clock

TOLERATED_MS = 60_000
"""By which the wall clock may gain on the other one between two looks without being called a leap."""
BELIEVED_AFTER = 24 * 3600.0
"""Seconds."""


class SteadyTime:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = self._difference()
        self._leapt_at: float | None = None

    def _difference(self) -> int:
        return self._clock.now_ms() - round(self._clock.monotonic() * 1000)

    def now_ms(self) -> int:
        ahead, monotonic = self._difference(), self._clock.monotonic()
        if ahead <= self._ahead + TOLERATED_MS:
            self._ahead, self._leapt_at = ahead, None
        elif self._leapt_at is None:
            self._leapt_at = monotonic
        elif monotonic - self._leapt_at >= BELIEVED_AFTER:
            self._ahead, self._leapt_at = ahead, None
        return self._ahead + round(monotonic * 1000)
