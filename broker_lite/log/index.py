"""The two sparse indexes of a segment: where an offset lies, and when a time was reached.

Every `index.interval.bytes` the segment adds one entry to each:

    offset index   the *last* offset of a batch -> the position of its first byte
    time index     the highest timestamp so far -> the last offset of the first batch that reached it

So the batch with an offset starts at or after the entry with the greatest offset not above it, and everything
before the entry with the greatest timestamp not above a time is older.  A few KiB are walked from there.

They are caches.  Entries wait in memory and go to the files when the log is flushed, rolls or closes; files that are
missing or insane are made again from the segment, and an entry is compared with the header it points at before it is
believed (see segment.py).  So nothing that happens to these files changes an answer.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from pathlib import Path

from broker_lite.log import layout
from broker_lite.log.disk import Disk


class SegmentIndex:
    """Offsets here are relative to the segment's base."""

    __slots__ = ("_saved", "_saved_times", "offsets", "positions", "time_offsets", "times")

    def __init__(self) -> None:
        self.offsets = array("I")
        self.positions = array("I")
        self.times = array("q")
        self.time_offsets = array("I")
        self._saved = 0
        self._saved_times = 0

    @classmethod
    def load(cls, disk: Disk, log_path: Path, *, size: int) -> SegmentIndex:
        """Raises ValueError or FileNotFoundError where the files cannot be those of a log of `size` bytes."""
        index = cls()
        data = disk.read_bytes(log_path.with_suffix(layout.INDEX))
        index.offsets, index.positions = layout.parse_index(data)
        times = disk.read_bytes(log_path.with_suffix(layout.TIME_INDEX))
        index.times, index.time_offsets = layout.parse_time_index(times)
        if index.positions and index.positions[-1] >= size:
            raise ValueError(f"the offset index points to byte {index.positions[-1]} of {size}")
        index._saved = len(index.offsets)
        index._saved_times = len(index.times)
        if (
            len(data) != index._saved * layout.INDEX_ENTRY.size
            or len(times) != index._saved_times * layout.TIME_ENTRY.size
        ):
            index.rewrite()  # Kafka's zeros behind the last entry
        return index

    @property
    def pending(self) -> int:
        return len(self.offsets) - self._saved + len(self.times) - self._saved_times

    def is_full(self, max_bytes: int) -> bool:
        return (
            len(self.offsets) * layout.INDEX_ENTRY.size >= max_bytes - layout.INDEX_ENTRY.size
            or len(self.times) * layout.TIME_ENTRY.size >= max_bytes - layout.TIME_ENTRY.size
        )

    def add(self, offset: int, position: int) -> None:
        self.offsets.append(offset)
        self.positions.append(position)

    def add_time(self, timestamp: int, offset: int) -> None:
        """Nothing unless the timestamp is a new maximum."""
        if timestamp > (self.times[-1] if self.times else -1):
            self.times.append(timestamp)
            self.time_offsets.append(offset)

    def entry_for(self, offset: int) -> int:
        """The entry from which to look for `offset`; -1 is the segment's first byte."""
        return bisect_right(self.offsets, offset) - 1

    def entry_before(self, position: int) -> int:
        """The last entry that does not lie beyond `position`."""
        return bisect_right(self.positions, position) - 1

    def time_entry_for(self, timestamp: int) -> int:
        return bisect_right(self.times, timestamp) - 1

    def keep(self, entries: int) -> None:
        """Forget all but the first entries, and the times of batches after them."""
        last = self.offsets[entries - 1] if entries else -1
        del self.offsets[entries:], self.positions[entries:]
        times = bisect_right(self.time_offsets, last)
        del self.times[times:], self.time_offsets[times:]
        if entries < self._saved or times < self._saved_times:
            self.rewrite()

    def save(self, disk: Disk, log_path: Path) -> None:
        """After this the files hold what memory holds. Shortened ones are written anew, others get their tail."""
        offset_path, time_path = log_path.with_suffix(layout.INDEX), log_path.with_suffix(layout.TIME_INDEX)
        saved, saved_times = self._saved, self._saved_times
        self.rewrite()  # should one of the writes fail half way
        try:
            self._write(disk, offset_path, time_path, saved, saved_times)
        except OSError:
            disk.remove(time_path)  # an index without its end would lie, a missing one is made again
            raise
        self._saved, self._saved_times = len(self.offsets), len(self.times)

    def _write(self, disk: Disk, offset_path: Path, time_path: Path, saved: int, saved_times: int) -> None:
        if saved < 0:
            disk.write_atomic(offset_path, layout.format_index(self.offsets, self.positions), sync=False)
            disk.write_atomic(time_path, layout.format_time_index(self.times, self.time_offsets), sync=False)
        else:
            disk.append_bytes(offset_path, layout.format_index(self.offsets[saved:], self.positions[saved:]))
            disk.append_bytes(
                time_path, layout.format_time_index(self.times[saved_times:], self.time_offsets[saved_times:])
            )

    def rewrite(self) -> None:
        """The files are not what memory holds: the next save replaces them."""
        self._saved = self._saved_times = -1
