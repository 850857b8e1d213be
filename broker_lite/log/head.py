"""The oldest segments of a log: how they leave it.

What is decided in memory (the log starts later, an epoch or an aborted transaction has no records left) has to be done
to files, and the disk may refuse.  So every step here can be repeated: a segment leaves the list when its files are out
of the way, and what could not be written is written by the next `tidy`.
"""

from __future__ import annotations

from pathlib import Path

from broker_lite.log.aborted import AbortedIndex, AbortedTxn
from broker_lite.log.disk import Disk
from broker_lite.log.epochs import LeaderEpochs
from broker_lite.log.finder import Finder
from broker_lite.log.graveyard import Graveyard
from broker_lite.log.segment import Segment


class Head:
    __slots__ = ("_aborted", "_epochs", "_finder", "_segments", "graveyard", "held")

    def __init__(
        self,
        disk: Disk,
        path: Path,
        segments: list[Segment],
        finder: Finder,
        aborted: AbortedIndex,
        epochs: LeaderEpochs,
    ) -> None:
        """`segments` is the log's own list, the active one last."""
        self._segments = segments
        self._finder = finder
        self._aborted = aborted
        self._epochs = epochs
        self.graveyard = Graveyard(disk, path)
        self.held = False
        """Somebody works on sealed segments: none of them goes away."""

    def tidy(self, start: int, *, delay_ms: int) -> None:
        """The files say what memory says. OSError: the disk refuses some of it, and can be asked again."""
        self.drop_before(start, delay_ms=delay_ms)  # first, for it gives room
        self._aborted.save()
        if self._epochs.outdated:
            self._epochs.save(sync=False)

    def drop_before(self, offset: int, *, delay_ms: int) -> None:
        """Whole segments only, and none while somebody works on them."""
        while not self.held and len(self._segments) > 1 and self._segments[1].base <= offset:
            self.drop(self._segments[0], delay_ms=delay_ms)
            del self._segments[0]
            self._aborted.truncate_start(self._segments[0].base)

    def drop(self, segment: Segment, *, delay_ms: int) -> None:
        """Readers that hold a slice of it finish; the file is unlinked but open."""
        self.graveyard.bury(self.graveyard.names_of(segment.base), delay_ms=delay_ms)
        self._finder.forget(segment)
        segment.file.close()

    def replace(self, old: list[Segment], fresh: Segment, aborted: list[AbortedTxn]) -> None:
        """Compaction has made one segment of several; the files have their names already."""
        place = self._segments.index(old[0])
        assert self._segments[place : place + len(old)] == old, f"{old=}"
        fresh.next_offset = old[-1].next_offset
        self._segments[place : place + len(old)] = [fresh]
        for segment in old:
            self._finder.forget(segment)
            segment.file.close()
        self._aborted.replace(fresh.base, fresh.next_offset, aborted)
