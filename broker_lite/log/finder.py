"""Finding things in the segments of a log, without changing anything.

Two small memories make the common cases cheap: where each of the last readers stopped, so that one who goes on there
needs no index, and the indexes of the few sealed segments that were looked into last.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from broker_lite.log.scan import Step, steps
from broker_lite.log.segment import Segment
from broker_lite.log.slice import FileSlice
from broker_lite.records.batch import MAGIC, Batch
from broker_lite.records.legacy import as_batch

_STOPS = 32
_WARM = 4


class Finder:
    __slots__ = ("_segments", "_stops", "_warm")

    def __init__(self, segments: list[Segment]) -> None:
        """`segments` is the log's own list, the active one last."""
        self._segments = segments
        self._stops: dict[int, tuple[Segment, int]] = {}
        """The base offset of a batch at which a read ended, and where it lies."""
        self._warm: list[Segment] = []

    def segment_of(self, offset: int) -> int:
        """The number of the segment in which `offset` lies."""
        return max(0, bisect_right(self._segments, offset, key=_base) - 1)

    def find(self, offset: int, end: int) -> tuple[Segment, int] | None:
        """Where the first batch starts that ends at or after `offset`; None if its base is not below `end`."""
        stop = self._stops.get(offset)
        if stop is not None:
            return stop
        for segment in self._segments[self.segment_of(offset) :]:
            if segment.base >= end:
                return None
            self.keep_warm(segment)
            step = segment.find(offset)
            if step is not None:
                return (segment, step.position) if step.base < end else None
        return None

    def stop(
        self, segment: Segment, start: int, max_bytes: int, end: int, end_at: int | None, *, at_least_one: bool
    ) -> int:
        """Where a read that begins at `start` ends: after at most `max_bytes`, and before a batch with base `end`.

        `end_at`: where that batch lies in the active segment, if it is known.
        """
        if end >= segment.next_offset:
            stop = segment.size
        elif end_at is not None and segment is self._segments[-1]:
            stop = end_at
        else:
            stop = segment.find_base(end)
        if stop - start > max_bytes:
            stop = min(stop, self.furthest(segment, start, max_bytes, at_least_one=at_least_one))
        return stop

    def furthest(self, segment: Segment, start: int, max_bytes: int, *, at_least_one: bool) -> int:
        """The end of the last batch within `max_bytes` from `start`, or of the first batch if it has to be one."""
        boundary, base = segment.boundary(start, start + max_bytes)
        if boundary == start:
            return start + segment.header(start).size if at_least_one else start
        if base >= 0:
            if len(self._stops) >= _STOPS:
                self._stops.clear()
            self._stops[base] = (segment, boundary)
        return boundary

    def ahead(self, offset: int, end: int) -> int | None:
        """How many bytes there are from the batch of `offset` to `end`; None if they go on in a later segment."""
        found = self.find(offset, end)
        if found is None:
            return 0
        segment, position = found
        if end < segment.next_offset:
            return max(0, segment.find_base(end) - position)
        return segment.size - position if segment is self._segments[-1] else None

    def end_of(self, records: FileSlice, offset: int) -> int:
        """Where the batch begins that follows a slice. The index tells, so a slice of any length costs the same."""
        for segment in self._segments[self.segment_of(offset) :]:
            if records.lies_in(segment.file):
                stop = records.position + len(records)
                if stop == segment.size:
                    return segment.next_offset
                for base, place in self._stops.items():
                    if place == (segment, stop):
                        return base
                following = segment.boundary(records.position, stop)[1]
                return segment.next_offset if following < 0 else following
        return max(step.last for step in steps(records, 0, len(records))) + 1

    def batches(self, from_offset: int, *, old: bool = True) -> Iterator[Batch]:
        """Messages from before there were batches come as batches, too, unless nobody wants them: `old` is False."""
        for segment in list(self._segments):
            if segment.next_offset <= from_offset or not segment.size:
                continue
            position = 0
            if from_offset > segment.base:
                first = segment.find(from_offset)
                position = segment.size if first is None else first.position
            for step, body in segment.whole(position):
                if old or step.magic == MAGIC:
                    yield _batch(step, body)

    def since(self, timestamp: int, start: int) -> Iterator[Batch]:
        """Batches whose highest timestamp is not below `timestamp` and that do not end before `start`."""
        for segment in list(self._segments):
            if not segment.size or segment.top[0] < timestamp:
                continue
            self.keep_warm(segment)
            for step, body in segment.whole(segment.position_for_time(timestamp)):
                if step.max_timestamp >= timestamp and step.last >= start:
                    yield _batch(step, body)

    def top(self) -> tuple[int, int]:
        """The highest timestamp, -1 if none, and the last offset of the first batch that has it."""
        tops = [segment.top for segment in self._segments if segment.size]
        return max(tops, key=lambda one: one[0], default=(-1, 0))

    def keep_warm(self, segment: Segment) -> None:
        """Sealed segments that were looked into lately keep their index; the oldest of them forgets it."""
        if segment is self._segments[-1] or segment in self._warm:
            return
        self._warm.append(segment)
        if len(self._warm) > _WARM:
            self._warm.pop(0).forget_index()

    def forget(self, segment: Segment) -> None:
        """It is about to be deleted."""
        self._stops.clear()
        if segment in self._warm:
            self._warm.remove(segment)


def _batch(step: Step, body: memoryview) -> Batch:
    return Batch.at(body) if step.magic == MAGIC else as_batch(body)


def _base(segment: Segment) -> int:
    return segment.base
