"""Aborted transactions of one log: what a read_committed reader is told to leave out.

Each segment has a .txnindex with the transactions whose abort marker lies in it, in the order of the markers; a
segment without any has no such file.  All are kept in memory, they are few.

The file is written after the marker, so a crash may lose an entry.  Replaying the markers adds it again; adding one
that is there changes nothing.  A file that cannot be read is set aside from memory and `unreadable_from` says from
where on the markers have to be replayed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

from broker_lite.log import layout
from broker_lite.log.disk import Disk
from broker_lite.log.layout import AbortedTxn as AbortedTxn

_LAST = attrgetter("last_offset")


class AbortedIndex:
    __slots__ = ("_disk", "_entries", "_folder", "_segment_of", "unreadable_from")

    def __init__(self, disk: Disk, folder: Path, segment_of: Callable[[int], int]) -> None:
        """`segment_of` tells the base of the segment in which an offset lies."""
        self._disk = disk
        self._folder = folder
        self._segment_of = segment_of
        self._entries: list[AbortedTxn] = []
        self.unreadable_from: int | None = None

    def load(self, bases: list[int]) -> None:
        for base in sorted(bases):
            try:
                self._entries += layout.parse_aborted(self._disk.read_bytes(self._path(base)))
            except ValueError:
                self.unreadable_from = base if self.unreadable_from is None else self.unreadable_from
        self._entries.sort(key=_LAST)

    def _path(self, base: int) -> Path:
        return self._folder / layout.file_name(base, layout.TXN_INDEX)

    @property
    def entries(self) -> list[AbortedTxn]:
        return list(self._entries)

    def add(self, entry: AbortedTxn) -> None:
        """The marker at `entry.last_offset` is in the log."""
        entries = self._entries
        if not entries or entries[-1].last_offset < entry.last_offset:
            entries.append(entry)
            self._disk.append_bytes(self._path(self._segment_of(entry.last_offset)), layout.format_aborted([entry]))
            return
        place = bisect_left(entries, entry.last_offset, key=_LAST)
        if entries[place] == entry:
            return
        if entries[place].last_offset == entry.last_offset:
            entries[place] = entry
        else:
            entries.insert(place, entry)
        self._rewrite(self._segment_of(entry.last_offset))

    def add_all(self, found: list[AbortedTxn]) -> None:
        """As `add`, for many whose markers rise: those after the last known are written together."""
        known = self._entries[-1].last_offset if self._entries else -1
        new: dict[int, list[AbortedTxn]] = {}
        for entry in found:
            if entry.last_offset > known:
                new.setdefault(self._segment_of(entry.last_offset), []).append(entry)
            else:
                self.add(entry)
        for base, entries in new.items():
            self._entries += entries
            self._disk.append_bytes(self._path(base), layout.format_aborted(entries))

    def _rewrite(self, base: int) -> None:
        mine = [entry for entry in self._entries if self._segment_of(entry.last_offset) == base]
        if mine:
            self._disk.write_atomic(self._path(base), layout.format_aborted(mine), sync=False)
        else:
            self._disk.remove(self._path(base))

    def overlapping(self, start: int, end: int) -> list[AbortedTxn]:
        """Those with a record in [start, end), in the order of their markers."""
        entries = self._entries
        if not entries:
            return []
        found = []
        for place in range(bisect_left(entries, start, key=_LAST), len(entries)):
            entry = entries[place]
            if entry.first_offset < end:
                found.append(entry)
            if entry.last_stable_offset >= end:
                break
        return found

    def truncate_end(self, end: int) -> None:
        """Markers at or after `end` are gone from the log, or about to be replayed."""
        keep = bisect_left(self._entries, end, key=_LAST)
        bases = {self._segment_of(entry.last_offset) for entry in self._entries[keep:]}
        del self._entries[keep:]
        for base in bases:
            self._rewrite(base)

    def replace(self, start: int, end: int, entries: list[AbortedTxn]) -> None:
        """Compaction has left these of the markers in [start, end), and has written the file."""
        first = bisect_left(self._entries, start, key=_LAST)
        after = bisect_left(self._entries, end, key=_LAST)
        self._entries[first:after] = entries

    def truncate_start(self, start: int) -> None:
        """Entries of segments before `start` are gone with their files."""
        del self._entries[: bisect_left(self._entries, start, key=_LAST)]
