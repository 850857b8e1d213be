"""What is counted for those who watch: requests by API, with their bytes and times.

Nothing here knows Prometheus; `cli/scrape.py` turns it into what Prometheus reads, when it asks.
"""

from __future__ import annotations

from bisect import bisect_left

from broker_lite.shapes import dataclass, field

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Seconds: the upper ends of the buckets."""


@dataclass(slots=True)
class Requests:
    """Of one API."""

    count: int = 0
    bytes: int = 0
    """Received."""
    sent: int = 0
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))


@dataclass(slots=True)
class Metrics:
    apis: dict[str, Requests] = field(default_factory=dict)
    loop_lag: float = 0.0
    """Seconds that the loop was late last time."""

    def of(self, api: str) -> Requests:
        found = self.apis.get(api)
        if found is None:
            found = self.apis[api] = Requests()
        return found

    def request(self, api: str, *, size: int, seconds: float) -> None:
        found = self.of(api)
        found.count += 1
        found.bytes += size
        found.seconds += seconds
        found.buckets[bisect_left(BOUNDS, seconds)] += 1
