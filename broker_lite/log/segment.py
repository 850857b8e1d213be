"""One .log file with its indexes.

The last segment of a log is *active*: it grows, and all that is known of it is in memory.  The others are *sealed*:
their length never changes, and their index is loaded when somebody looks something up.

What an index says is compared with the header it points at before it is believed, one small read.  If they differ,
the index is made again from the file, once; what differs then is damage in the file itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from broker_lite.log import layout
from broker_lite.log.disk import Disk, File
from broker_lite.log.index import SegmentIndex
from broker_lite.log.scan import Damaged, Step, checked, step_at, steps, whole

_HEADER_BYTES = 64


class Segment:
    __slots__ = (
        "_index",
        "_top",
        "base",
        "created_ms",
        "disk",
        "entry_at",
        "file",
        "first",
        "interval",
        "next_offset",
        "path",
        "size",
    )

    def __init__(
        self, disk: Disk, folder: Path, base: int, *, size: int, interval: int, created_ms: int, unfinished: str = ""
    ) -> None:
        """`unfinished` is what follows `.log` in the name while the segment is being made."""
        self.disk = disk
        self.base = base
        self.path = folder / (layout.file_name(base, layout.LOG) + unfinished)
        self.file: File = disk.open_append(self.path, size=size)
        self.size = size
        """Bytes that are good; a damaged file may be longer."""
        self.interval = interval
        self.created_ms = created_ms
        self.next_offset = base
        """One past the last offset. Of a sealed segment: where the next one begins."""
        self.entry_at = size
        """Where the last index entry points."""
        self._index: SegmentIndex | None = None
        self._top: tuple[int, int] | None = None
        self.first: int | None = None
        """`first_timestamp`, if it is known yet."""

    @classmethod
    def create(cls, disk: Disk, folder: Path, base: int, *, interval: int, now_ms: int) -> Segment:
        """A new, empty file, there for the next start to see even if nothing is ever appended."""
        disk.append_bytes(folder / layout.file_name(base, layout.LOG), b"")
        return cls.empty(disk, folder, base, interval=interval, now_ms=now_ms)

    @classmethod
    def empty(cls, disk: Disk, folder: Path, base: int, *, interval: int, now_ms: int) -> Segment:
        """Its file is made by the first append, if there is none."""
        segment = cls(disk, folder, base, size=0, interval=interval, created_ms=now_ms)
        segment._index = SegmentIndex()
        segment._top = (-1, base)
        return segment

    # --- growing --------------------------------------------------------------------------------------------------

    @property
    def index(self) -> SegmentIndex:
        if self._index is None:
            try:
                self._index = SegmentIndex.load(self.disk, self.path, size=self.size)
            except (ValueError, FileNotFoundError):
                self.rebuild()
        assert self._index is not None
        return self._index

    def note(self, size: int, last: int, max_timestamp: int) -> None:
        """A batch now lies at the end: index it if an entry is due."""
        top, position = self._top or self.top, self.size
        if max_timestamp > top[0]:
            self._top = top = (max_timestamp, last)
        if position - self.entry_at > self.interval:
            index = self.index
            index.add(last - self.base, position)
            index.add_time(top[0], top[1] - self.base)
            self.entry_at = position
        if not position and self.first is None:
            self.first = max_timestamp
        self.size = position + size
        self.next_offset = last + 1

    def save_index(self, *, final: bool = False, at_least: int = 1) -> None:
        """Write what the index files lack, if it is worth it: `at_least` entries.

        `final` adds the highest timestamp, as at a roll or a clean stop, and leaves both files behind in any case.
        """
        if final:
            top = self.top
            self.index.add_time(top[0], top[1] - self.base)
            self.index.save(self.disk, self.path)
        elif self._index is not None and self._index.pending >= at_least:
            self._index.save(self.disk, self.path)

    def forget_index(self) -> None:
        """Sealed segments only: the files say it all."""
        self._index = None

    def finished(self) -> Segment:
        """What was made under another name now has its own; its index files are complete."""
        made = Segment(
            self.disk,
            self.path.parent,
            self.base,
            size=self.size,
            interval=self.interval,
            created_ms=self.created_ms,
        )
        made._top = self._top
        return made

    def truncate(self, size: int) -> None:
        self.file.truncate(size)
        self.size = size

    # --- what it is -----------------------------------------------------------------------------------------------

    @property
    def top(self) -> tuple[int, int]:
        """The highest timestamp, -1 if none, and the last offset of the first batch that has it."""
        if self._top is None:
            self._top = self._load_top()
        return self._top

    def _load_top(self) -> tuple[int, int]:
        index = self.index
        if index.times:
            top = index.times[-1], self.base + index.time_offsets[-1]
            if self._is_top(*top):
                return top
            self.rebuild()
            assert self._top is not None
            return self._top
        top = (-1, self.base)
        for step in steps(self.file, 0, self.size):
            if step.max_timestamp > top[0]:
                top = (step.max_timestamp, step.last)
        return top

    def _is_top(self, timestamp: int, offset: int) -> bool:
        """Whether a batch ends with `offset` and has this timestamp: else the time index lies."""
        try:
            step = self.find(offset)
        except Damaged:
            return False
        return step is not None and step.last == offset and step.max_timestamp == timestamp

    @property
    def first_timestamp(self) -> int:
        """Of the first batch: from here segment.ms counts. -1 if there is none."""
        if self.first is None:
            if not self.size:
                return -1
            self.first = self.header(0).max_timestamp
        return self.first

    def header(self, position: int) -> Step:
        return step_at(self.file.pread(position, _HEADER_BYTES), 0, position, self.size)

    # --- looking up -----------------------------------------------------------------------------------------------

    def find(self, offset: int) -> Step | None:
        """The first batch that ends at or after `offset`; None if all end before."""
        for step in steps(self.file, self._trusted(self.index.entry_for(offset - self.base), offset), self.size):
            if step.last >= offset:
                return step
        return None

    def find_base(self, offset: int) -> int:
        """Where the first batch starts whose base is at or after `offset`; the segment's end if none does."""
        for step in steps(self.file, self._trusted(self.index.entry_for(offset - self.base), offset), self.size):
            if step.base >= offset:
                return step.position
        return self.size

    def boundary(self, start: int, limit: int) -> tuple[int, int]:
        """The furthest end of a batch that is not past `limit`, and the offset that begins there, -1 at the end.

        `start` is where a batch starts; the answer is `start` if not even that one fits.
        """
        position = start
        entry = self.index.entry_before(limit)
        if entry >= 0 and self.index.positions[entry] > start:
            position = max(start, self._checked_position(entry))
        for step in steps(self.file, position, self.size):
            if step.position + step.size > limit:
                return step.position, step.base
        return self.size, -1

    def position_for_time(self, timestamp: int) -> int:
        """A batch boundary before which every batch is older than `timestamp`."""
        index = self.index
        entry = index.time_entry_for(timestamp)
        if entry < 0:
            return 0
        offset = self.base + index.time_offsets[entry]
        if not self._is_top(index.times[entry], offset):
            self.rebuild()
            return 0
        step = self.find(offset)
        return step.position if step is not None else 0

    def _trusted(self, entry: int, offset: int) -> int:
        """The position of an entry found for `offset`, after a look at what lies there."""
        if entry < 0:
            return 0
        position = self._checked_position(entry)
        if position < 0:  # the index was made again
            entry = self.index.entry_for(offset - self.base)
            return self.index.positions[entry] if entry >= 0 else 0
        return position

    def _checked_position(self, entry: int) -> int:
        """-1 if the entry lied and the index was made again."""
        index = self.index
        position = index.positions[entry]
        try:
            if self.header(position).last == self.base + index.offsets[entry]:
                return position
        except Damaged:
            pass
        self.rebuild()
        return -1

    def steps(self, position: int = 0) -> Iterator[Step]:
        return steps(self.file, position, self.size)

    def whole(self, position: int) -> Iterator[tuple[Step, memoryview]]:
        return whole(self.file, position, self.size)

    # --- making it again ------------------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Both indexes from the headers. What lies behind damage stays unindexed."""
        size, next_offset = self.size, self.next_offset
        self._reset(0)
        try:
            for step in steps(self.file, 0, size):
                self._note_again(step)
        except Damaged:
            pass
        finally:
            self.size, self.next_offset = size, next_offset

    def _note_again(self, step: Step) -> None:
        if not self.base <= step.base <= step.last <= self.base + layout.MAX_RELATIVE:
            raise Damaged(step.position, f"offset {step.base} in a segment that begins with {self.base}")
        self.note(step.size, step.last, step.max_timestamp)

    def _reset(self, entries: int) -> None:
        """Go back to an index entry, as if what lies after it were not there yet."""
        if entries:
            index = self.index
            position = index.positions[entries - 1]
            index.keep(entries)
            times = len(index.times)
            self._top = (index.times[-1], self.base + index.time_offsets[-1]) if times else (-1, self.base)
        else:
            position = 0
            index = SegmentIndex()
            index.rewrite()
            self._top = (-1, self.base)
            self.first = None
        self._index = index
        self.size = self.entry_at = position
        self.next_offset = self.base

    def adopt(self) -> None:
        """After a clean stop: find the end from the last index entry. Raises Damaged if the file does not fit it."""
        size = self.size
        entries = len(self.index.offsets)
        if entries and self._checked_position(entries - 1) < 0:
            entries = len(self.index.offsets)
        top = self.top
        index = self.index
        position = index.positions[entries - 1] if entries else 0
        try:
            self.size = self.entry_at = position
            for step in steps(self.file, position, size):
                self.size = step.position
                self._note_again(step)
        finally:
            self.size = size
        self._top = max(top, self._top or top, key=lambda one: one[0])

    def recover(self, from_offset: int, *, consecutive: bool) -> Iterator[tuple[Step, memoryview]]:
        """Check every batch from `from_offset` on and index it anew; ends with Damaged where one is not intact.

        `consecutive`: from there on no offset may be missing.

        Afterwards, and at each step, `size` and `next_offset` say how far the file is good.
        """
        end = self.size
        entries = 0
        if from_offset > self.base and end:
            entries = self.index.entry_for(from_offset - self.base) + 1
            if entries and (self._checked_position(entries - 1) < 0 or not self._keeps_its_times(entries)):
                entries = 0
        self._reset(entries)
        consecutive_from = from_offset if consecutive else None
        for step, body in checked(self.file, self.size, end, base=self.base, consecutive_from=consecutive_from):
            self.note(step.size, step.last, step.max_timestamp)
            yield step, body

    def _keeps_its_times(self, entries: int) -> bool:
        index = self.index
        times = sum(1 for offset in index.time_offsets if offset <= index.offsets[entries - 1])
        return not times or self._is_top(index.times[times - 1], self.base + index.time_offsets[times - 1])
