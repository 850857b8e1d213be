"""A broker's data folder seen from outside, while the broker runs or not.

What may be read is what the broker has promised: from the log start to the high watermark, as its checkpoint files
say; file sizes promise nothing.  For committed data only, up to the last stable offset, which is found as a broker
finds it when it starts: from the newest snapshot of producers, and the batch headers behind it.

Whoever reads names offsets, never bytes: where they lie is looked up in the index when the file is open.  So it does no
harm if retention removes a segment or compaction replaces it between planning and reading, as long as the offsets
themselves are still there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from broker_lite.ids import TopicPartition, format_topic_id
from broker_lite.log import layout
from broker_lite.pipeline.arrowlog import records
from broker_lite.pipeline.chunks import CHUNK, chunks
from broker_lite.pipeline.committed import Aborted, Transactions
from broker_lite.pipeline.errors import DataLost, NotThere
from broker_lite.pipeline.journal import Told, topics_in
from broker_lite.pipeline.scan import Batches, scan
from broker_lite.pipeline.store import Found, Reading, Room, Store
from broker_lite.pipeline.varints import Ints

SPLIT_BYTES = 128 << 20
"""As much of a file as Spark itself gives to a task: each one costs its start and its end, whatever it reads."""
HEAD_BYTES = 17
"""Offset, length, leader epoch, magic: what shows whether a batch may begin somewhere."""
_FAR = 1 << 62


@dataclass(frozen=True, slots=True)
class Bounds:
    start: int
    end: int
    """One after the last offset that may be read."""
    aborted: tuple[Aborted, ...] = ()


class Folder:
    def __init__(self, place: str, *, chunk: int = CHUNK, room: Room | None = None) -> None:
        """With a room, a piece of log is only good until the next one."""
        self.place = place
        self._room = room
        self.store = Store(place)
        self._chunk = chunk
        if not self.store.exists():
            raise NotThere(f"there is no folder {place}")
        if self.store.is_file():
            raise NotThere(f"{place} is a file, not a data folder")
        if not self.store.exists(layout.META_PROPERTIES) and not self._folders():
            raise NotThere(
                f"{place} is no data folder: it has neither {layout.META_PROPERTIES} nor a folder TOPIC-PARTITION"
            )

    @cached_property
    def cluster_id(self) -> str | None:
        if not self.store.exists(layout.META_PROPERTIES):
            return None
        return layout.parse_properties(self.store.read_bytes(layout.META_PROPERTIES)).get("cluster.id")

    @cached_property
    def journal(self) -> dict[str, Told] | None:
        """What our broker has written down of its topics; None for a folder that has no journal."""
        return topics_in(self.store)

    def partitions(self) -> list[TopicPartition]:
        """Those that have a folder, and those that our journal knows: a folder is made with the first record."""
        journal = (self.journal or {}).items()
        known = {TopicPartition(topic, part) for topic, told in journal for part in range(told.partitions)}
        return sorted(known | self._folders())

    def _folders(self) -> set[TopicPartition]:
        found = (layout.parse_folder_name(one.name) for one in self.store.listing() if one.is_folder)
        return {one for one in found if one is not None}

    def topic_id(self, topic: str) -> str | None:
        """As its folders tell it; None where they do not."""
        for one in sorted(self._folders()):
            name = f"{layout.folder_name(one)}/{layout.PARTITION_METADATA}"
            if one.topic == topic and self.store.exists(name):
                return format_topic_id(layout.parse_partition_metadata(self.store.read_bytes(name)))
        return None

    def segments(self, partition: TopicPartition) -> list[tuple[int, Found]]:
        """(first offset, file) of each segment, in order."""
        found = self._segments(partition)
        if not found:
            raise NotThere(f"{self.place} has no segments of {partition.topic}-{partition.partition}")
        return found

    def _segments(self, partition: TopicPartition) -> list[tuple[int, Found]]:
        found = []
        for one in self.store.listing(layout.folder_name(partition)):
            name = layout.parse_file_name(one.name)
            if name is not None and name[1] == layout.LOG:
                found.append((name[0], one))
        return found

    def is_lost(self, partition: TopicPartition) -> bool:
        """Whether there is nothing of a partition, which nobody wrote to or whose files were taken away."""
        return not self._segments(partition)

    def bounds(self, partition: TopicPartition, *, committed: bool = False) -> Bounds:
        if self.is_lost(partition):  # what the checkpoints promise of it; nothing if nobody ever wrote to it
            start = self._checkpoint(layout.LOG_STARTS).get(partition, 0)
            return Bounds(start, max(start, self._checkpoint(layout.HIGH_WATERMARKS).get(partition, 0)))
        start, high = self.log_start(partition), self.high_watermark(partition)
        if not committed:
            return Bounds(start, max(start, high))
        told = self._transactions(partition, start, high)
        return Bounds(start, max(start, told.stable(high)), tuple(told.aborted))

    def log_start(self, partition: TopicPartition) -> int:
        return max(self._checkpoint(layout.LOG_STARTS).get(partition, 0), self.segments(partition)[0][0])

    def high_watermark(self, partition: TopicPartition) -> int:
        """From the checkpoint; a folder without one was copied from somewhere, and all of it counts."""
        if self.store.exists(layout.HIGH_WATERMARKS):
            return self._checkpoint(layout.HIGH_WATERMARKS).get(partition, 0)
        end = 0
        for found in self.chunks(partition, self.segments(partition)[-1][0], _FAR):
            end = int(found.last_offset[-1]) + 1 if len(found) else end
            if found.fault is not None:
                break
        return end

    def _checkpoint(self, name: str) -> dict[TopicPartition, int]:
        if not self.store.exists(name):
            return {}
        try:
            return layout.parse_offsets(self.store.read_bytes(name))
        except ValueError as error:
            raise NotThere(f"{self.place}/{name}: {error}") from None

    def _transactions(self, partition: TopicPartition, start: int, high: int) -> Transactions:
        folder = layout.folder_name(partition)
        told = Transactions()
        begin = start
        for one in self.store.listing(folder):
            offset, suffix = layout.parse_file_name(one.name) or (0, "")
            try:
                if suffix == layout.TXN_INDEX:
                    told.know(layout.parse_aborted(self.store.read_bytes(f"{folder}/{one.name}")))
                elif suffix == layout.SNAPSHOT and start < offset <= high:
                    told.begin_with(layout.parse_snapshot(self.store.read_bytes(f"{folder}/{one.name}")))
                    begin = offset
            except ValueError:
                continue  # a snapshot or index that cannot be read is one that is not there: the headers tell all
        for found in self.chunks(partition, begin, high):
            told.follow(found, begin)
        return told

    def chunks(self, partition: TopicPartition, first: int, end: int) -> Iterator[Batches]:
        """Whole batches that hold offsets from `first` to before `end`."""
        folder = layout.folder_name(partition)
        segments = self.segments(partition)
        for index, (base, one) in enumerate(segments):
            after = segments[index + 1][0] if index + 1 < len(segments) else _FAR
            if after <= first:
                continue
            if base >= end:
                return
            try:
                opened = self.store.open(f"{folder}/{one.name}", self._room)
            except FileNotFoundError:
                raise DataLost(f"{self.place}/{folder}/{one.name} was removed while it was to be read") from None
            with opened as file:
                start = self._position(file, folder, base, first)
                yield from chunks(file, f"{folder}/{one.name}", start=start, end=end, chunk=self._chunk)

    def index_of(self, segment: str) -> tuple[int, Ints, Ints]:
        """(first offset, offsets relative to it, positions) of a segment named as `chunks` names it."""
        folder, _, name = segment.partition("/")
        base, _ = layout.parse_file_name(name) or (0, "")
        return base, *self._index(folder, base)

    def _index(self, folder: str, base: int) -> tuple[Ints, Ints]:
        """Offsets and positions as far as both rise: Kafka's active files end in zeros, which are no entries."""
        try:
            data = self.store.read_bytes(f"{folder}/{layout.file_name(base, layout.INDEX)}")
        except OSError:
            data = b""
        whole = len(data) // layout.INDEX_ENTRY.size * layout.INDEX_ENTRY.size
        both = np.frombuffer(data[:whole], dtype=">u4").astype(np.int64).reshape(-1, 2)
        stuck = np.flatnonzero((np.diff(both, axis=0) <= 0).any(axis=1))
        both = both[: int(stuck[0]) + 1] if stuck.size else both
        return both[:, 0], both[:, 1]

    def _position(self, file: Reading, folder: str, base: int, first: int) -> int:
        """A batch begins here, and nothing before it is at or after `first`.

        An index is only a help: where it leads to anything but a batch at or below `first`, the segment is read whole.
        """
        if first <= base:
            return 0
        offsets, positions = self._index(folder, base)
        place = int(np.searchsorted(offsets, first - base, side="right")) - 1
        if place < 0:
            return 0
        position = int(positions[place])
        offset = _begins(file, position)
        return position if offset is not None and base <= offset <= first else 0

    def split(self, partition: TopicPartition, first: int, end: int, size: int = SPLIT_BYTES) -> list[tuple[int, int]]:
        """Ranges of offsets that together are first..end, cut between batches, alike and of about `size` at most.

        Alike, because all others wait for the longest one, and a short rest costs as much to begin as a whole one.
        """
        segments = self._segments(partition)
        afters = (*(base for base, _ in segments[1:]), _FAR)
        inside = [found for found, after in zip(segments, afters, strict=False) if after > first and found[0] < end]
        total = sum(one.size for _, one in inside)
        size = max(1, -(-total // max(1, -(-total // size))))
        cuts = [first]
        held = 0
        for base, one in inside:
            if base > cuts[-1] and held >= size:
                cuts.append(base)
                held = 0
            begin = 0
            for offset, position in self._cuts(partition, base, one, size):
                if cuts[-1] < offset < end and held + position - begin >= size:
                    cuts.append(offset)
                    held, begin = 0, position
            held += one.size - begin
        return list(zip(cuts, [*cuts[1:], end], strict=True))

    def _cuts(self, partition: TopicPartition, base: int, one: Found, size: int) -> Iterator[tuple[int, int]]:
        """(first offset, position) of batches inside the segment, about a quarter of `size` apart."""
        if one.size < size // 4:
            return
        folder = layout.folder_name(partition)
        _, positions = self._index(folder, base)
        following = 0
        with self.store.open(f"{folder}/{one.name}") as file:
            for position in positions.tolist():
                if position < following:
                    continue
                offset = _begins(file, position)
                if offset is not None and offset >= base:
                    yield offset, position
                following = position + size // 4

    def offset_by_time(self, partition: TopicPartition, timestamp: int, bounds: Bounds) -> int | None:
        """The first offset whose record is not older than this; None if there is none."""
        for found in self.chunks(partition, bounds.start, bounds.end):
            if found.fault is not None:
                raise found.fault
            new = (found.columns["max_timestamp"] >= timestamp) & ~found.is_control
            for index in np.flatnonzero(new).tolist():
                only = np.arange(len(found)) == index
                for rows in records(found, keep=only, first=bounds.start, end=bounds.end):
                    times = rows["timestamp"].cast("int64").to_numpy()
                    late = np.flatnonzero(times >= timestamp)
                    if late.size:
                        return int(rows["offset"][int(late[0])].as_py())
        return None


def _begins(file: Reading, position: int) -> int | None:
    """The offset of the batch of magic 2 that begins here, as far as its first bytes show; None if none can."""
    head = file.at(position, HEAD_BYTES)
    if len(head) < HEAD_BYTES or head[16] != 2 or scan(head, "").fault is not None:
        return None
    return int.from_bytes(head[:8], "big", signed=True)
