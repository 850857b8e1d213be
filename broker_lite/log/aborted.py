"""Aborted transactions of one log: what a read_committed reader is told to leave out.

Each segment has a .txnindex with the transactions whose abort marker lies in it, in the order of the markers; a
segment without any has no such file.  All are kept in memory, they are few; where their markers lie is kept beside
them in one piece, for there may be a hundred thousand of them and every fetch looks for its place.

The file is written after the marker, so a crash may lose an entry, and a disk that refuses it has to be asked again:
`save`.  Whoever takes a snapshot, after which markers are not replayed, saves first.  Replaying the markers adds an
entry again; adding one that is there changes nothing.  A file that cannot be read is set aside from memory and
`unreadable_from` says from where on the markers have to be replayed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path

from broker_lite.log import layout
from broker_lite.log.disk import Disk
from broker_lite.log.layout import AbortedTxn as AbortedTxn


class AbortedIndex:
    __slots__ = ("_disk", "_entries", "_folder", "_markers", "_segment_of", "_unsaved", "unreadable_from")

    def __init__(self, disk: Disk, folder: Path, segment_of: Callable[[int], int]) -> None:
        """`segment_of` tells the base of the segment in which an offset lies."""
        self._disk = disk
        self._folder = folder
        self._segment_of = segment_of
        self._entries: list[AbortedTxn] = []
        self._markers = array("q")
        """The last offset of each entry."""
        self._unsaved: set[int] = set()
        """Bases of segments whose file lacks an entry."""
        self.unreadable_from: int | None = None

    def load(self, bases: list[int]) -> None:
        for base in sorted(bases):
            try:
                self._entries += layout.parse_aborted(self._disk.read_bytes(self._path(base)))
            except ValueError:
                self.unreadable_from = base if self.unreadable_from is None else self.unreadable_from
        self._entries.sort(key=lambda entry: entry.last_offset)
        self._markers = array("q", [entry.last_offset for entry in self._entries])

    def _path(self, base: int) -> Path:
        return self._folder / layout.file_name(base, layout.TXN_INDEX)

    @property
    def entries(self) -> list[AbortedTxn]:
        return list(self._entries)

    def add(self, entry: AbortedTxn) -> None:
        """The marker at `entry.last_offset` is in the log."""
        entries = self._entries
        if not entries or entries[-1].last_offset < entry.last_offset:
            self._append(entry)
            base = self._segment_of(entry.last_offset)
            try:
                if base not in self._unsaved:
                    self._disk.append_bytes(self._path(base), layout.format_aborted([entry]))
            except OSError:
                self._unsaved.add(base)
            return
        place = bisect_left(self._markers, entry.last_offset)
        if entries[place] == entry:
            return
        if entries[place].last_offset == entry.last_offset:
            entries[place] = entry
        else:
            entries.insert(place, entry)
            self._markers.insert(place, entry.last_offset)
        self._rewrite(self._segment_of(entry.last_offset))

    def save(self) -> None:
        """Write what was refused before. OSError: it is refused again."""
        for base in list(self._unsaved):
            self._rewrite(base)
            self._unsaved.discard(base)

    def _append(self, entry: AbortedTxn) -> None:
        self._entries.append(entry)
        self._markers.append(entry.last_offset)

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
            for entry in entries:
                self._append(entry)
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
        for place in range(bisect_left(self._markers, start), len(entries)):
            _, first, _, stable = entry = entries[place]
            if first < end:
                found.append(entry)
            if stable >= end:
                break
        return found

    def truncate_end(self, end: int) -> None:
        """Markers at or after `end` are gone from the log, or about to be replayed."""
        keep = bisect_left(self._markers, end)
        bases = {self._segment_of(marker) for marker in self._markers[keep:]}
        del self._entries[keep:], self._markers[keep:]
        for base in bases:
            self._rewrite(base)

    def replace(self, start: int, end: int, entries: list[AbortedTxn]) -> None:
        """Compaction has left these of the markers in [start, end), and has written the file."""
        first, after = bisect_left(self._markers, start), bisect_left(self._markers, end)
        self._entries[first:after] = entries
        self._markers[first:after] = array("q", [entry.last_offset for entry in entries])
        self._unsaved -= {base for base in self._unsaved if start <= base < end}

    def truncate_start(self, start: int) -> None:
        """Entries of segments before `start` are gone with their files."""
        gone = bisect_left(self._markers, start)
        del self._entries[:gone], self._markers[:gone]
        self._unsaved -= {base for base in self._unsaved if base < start}
