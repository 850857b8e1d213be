"""Open transactions of one partition, and how far a read_committed reader may go because of them.

A transaction is open from its first record here to its marker.  A reader of committed records sees nothing from
the first record of the oldest open one on.  A marker decides, but only once it is safe itself: while the high
watermark has not passed it, the transaction still holds readers back, for a power cut could take the marker away.

Transactions begin at rising offsets, so the oldest is always the first in the order of arrival.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import NamedTuple


class Ended(NamedTuple):
    """A transaction whose marker is in the log."""

    producer_id: int
    first_offset: int
    marker_offset: int
    commit: bool
    stable_after: int
    """Where the partition became stable up to, by this marker: what the aborted index stores."""


class Transactions:
    __slots__ = ("_decided", "_open", "idle")

    def __init__(self) -> None:
        self._open: OrderedDict[int, int] = OrderedDict()
        """First offset -> producer, oldest first."""
        self._decided: deque[Ended] = deque()
        """Those whose marker the high watermark has not passed, in the order of the markers."""
        self.idle = True
        """Neither: nothing holds readers back. Most partitions never see a transaction."""

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, producer_id: int, first_offset: int) -> None:
        self.idle = False
        newest = next(reversed(self._open), -1)
        self._open[first_offset] = producer_id
        if first_offset < newest:  # only when loaded from a snapshot, which is in no order
            self._open = OrderedDict(sorted(self._open.items()))

    def end(self, producer_id: int, first_offset: int, marker_offset: int, *, commit: bool) -> Ended:
        """The marker at `marker_offset` is in the log."""
        self.idle = False
        self._open.pop(first_offset, None)
        stable_after = next(iter(self._open), marker_offset + 1)
        ended = Ended(producer_id, first_offset, marker_offset, commit, stable_after)
        self._decided.append(ended)
        return ended

    def first_unstable(self, high: int) -> int | None:
        """The first offset that a read_committed reader may not see; None if only the high watermark holds it back."""
        decided = self._decided
        if decided:
            while decided and decided[0].marker_offset < high:
                decided.popleft()
            if decided:
                held = min(ended.first_offset for ended in decided)
                return min(held, next(iter(self._open), held))
        self.idle = not self._open
        return next(iter(self._open), None)

    def open_since(self) -> dict[int, int]:
        """Producer -> first offset of its open transaction."""
        return {producer_id: first for first, producer_id in self._open.items()}
