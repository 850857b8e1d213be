"""The four offsets of a partition, and the one place that moves them.

start    the first record that may be read; older ones are deleted
stable   read_committed readers see what lies before it: nothing of an open transaction
high     everyone sees what lies before it: it is as safe as the broker's durability promises
end      the offset of the next record
"""

from __future__ import annotations

from broker_lite.ids import Offset


class Offsets:
    """Always start <= stable <= high <= end."""

    __slots__ = ("end", "high", "stable", "start")

    start: Offset
    stable: Offset
    high: Offset
    end: Offset

    def __init__(self, start: Offset, end: Offset) -> None:
        self.start = self.stable = self.high = start
        self.end = end
        self.move(start=start, stable=start, high=start, end=end)

    def move(self, *, start: Offset, stable: Offset, high: Offset, end: Offset) -> None:
        assert 0 <= start <= stable <= high <= end, f"{start=} {stable=} {high=} {end=}"
        self.start = start
        self.stable = stable
        self.high = high
        self.end = end

    def visible(self, *, committed: bool) -> Offset:
        """Where a reader's view ends."""
        return self.stable if committed else self.high

    def __repr__(self) -> str:
        return f"<start {self.start} stable {self.stable} high {self.high} end {self.end}>"
