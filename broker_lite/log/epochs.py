"""Which leader epoch began at which offset, so that a client can tell whether the log it read is still this one.

Epochs and their first offsets rise together.  An epoch is written down before anything is stamped with it, and not
sooner: a start with thousands of partitions would do little else.  One that nothing was stamped with may have its
number again after a crash, which nobody can tell, and the latest epoch never falls.
An epoch that begins where the one before it began replaces it, for that one holds no records.

When the log loses its tail, the epochs there lose their records but the latest keeps its name: it begins at the new
end.  When it loses its head, the oldest epoch that still has records begins at the new start.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

from broker_lite.log import layout
from broker_lite.log.disk import Disk

UNDEFINED = -1
NONE = (UNDEFINED, -1)


class LeaderEpochs:
    __slots__ = ("_disk", "_entries", "_path", "latest", "outdated", "unsaved")

    def __init__(self, disk: Disk, folder: Path, entries: list[tuple[int, int]] | None = None) -> None:
        self._disk = disk
        self._path = folder / layout.LEADER_EPOCHS
        self._entries = entries or []
        self.latest = self._entries[-1][0] if self._entries else -1
        """-1 if no epoch is known."""
        self.unsaved = False
        """The file does not say what is said here."""
        self.outdated = False
        """The file still tells of epochs that lost their records."""

    @classmethod
    def load(cls, disk: Disk, folder: Path) -> LeaderEpochs:
        """Raises ValueError or FileNotFoundError if the file cannot be believed."""
        return cls(disk, folder, layout.parse_epochs(disk.read_bytes(folder / layout.LEADER_EPOCHS)))

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, first offset)"""
        return list(self._entries)

    def assign(self, epoch: int, start: int, *, sync: bool) -> None:
        """`epoch` begins at `start`; on disk when this returns (on the platter if `sync`)."""
        if epoch <= self.latest:
            return
        self.note(epoch, start)
        self.save(sync=sync)

    def note(self, epoch: int, start: int) -> None:
        """`assign` without the file, which is for whoever stamps the first batch."""
        if epoch <= self.latest:
            return
        while self._entries and self._entries[-1][1] >= start:
            self._entries.pop()
        self._entries.append((epoch, start))
        self.latest = epoch
        self.unsaved = True

    def clear(self) -> None:
        self._entries.clear()
        self.latest = -1

    def save(self, *, sync: bool) -> None:
        self._disk.write_atomic(self._path, layout.format_epochs(self._entries), sync=sync)
        self.unsaved = self.outdated = False

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The greatest epoch not above `epoch`, and where it ended; (-1, -1) for one that is not known yet."""
        if epoch == UNDEFINED or not self._entries or epoch > self.latest:
            return NONE
        if epoch == self.latest:
            return epoch, log_end
        after = bisect_right(self._entries, epoch, key=lambda entry: entry[0])
        known = self._entries[after - 1][0] if after else epoch
        return known, self._entries[after][1]

    def epoch_at(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written; -1 if that is before all we know."""
        after = bisect_right(self._entries, offset, key=lambda entry: entry[1])
        return self._entries[after - 1][0] if after else -1

    def truncate_end(self, end: int) -> bool:
        """The log now ends at `end`. True if that changed anything."""
        if not self._entries or self._entries[-1][1] <= end:
            return False
        while self._entries and self._entries[-1][1] >= end:
            self._entries.pop()
        self._entries.append((self.latest, end))
        return True

    def truncate_start(self, start: int) -> bool:
        """The log now starts at `start`. True if that changed anything."""
        after = bisect_right(self._entries, start, key=lambda entry: entry[1])
        if not after or (self._entries[after - 1][1] == start and after == 1):
            return False
        self._entries[:after] = [(self._entries[after - 1][0], start)]
        self.outdated = True
        return True
