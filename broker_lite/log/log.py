"""One partition's log: segments in order, of which the last one grows.

Always true:
- `start <= end`; offsets in [start, end) can be read, except gaps that compaction left;
- a batch is in the log when its whole write returned, and `end` moves only then.  A write that failed leaves no
  trace: the file is cut back to its last good length at once.  If even that fails the log goes offline: it can be
  read, and appending is refused until the next start;
- what lies before `recovery_point` was synced.

An append is one writev of a 16-byte head, which carries the offset and the leader epoch, and the rest of the batch as
it came: no copy, and no new checksum, which covers neither.  Its cost knows neither how many logs there are nor how
long this one is.

A read answers with a stretch of one file, whole batches only.  For a reader at the tail the position is remembered
from the append and nothing is looked up; a reader that goes on where it stopped finds the position it stopped at.

The log is told the time, and has no lock: it belongs to one thread.  A `SyncJob` is what another thread may have.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from broker_lite.errors import CorruptMessage, OffsetOutOfRange, StorageFailed
from broker_lite.ids import Offset
from broker_lite.log import layout
from broker_lite.log.aborted import AbortedIndex
from broker_lite.log.disk import Disk
from broker_lite.log.epochs import LeaderEpochs
from broker_lite.log.finder import Finder
from broker_lite.log.recovery import Opened, Recovered, open_segments, remove_segment_files
from broker_lite.log.rolling import LogSettings as LogSettings
from broker_lite.log.rolling import roll_is_due
from broker_lite.log.segment import Segment
from broker_lite.log.slice import FileSlice
from broker_lite.log.sync import SyncJob
from broker_lite.records.batch import LOG_OVERHEAD, Batch

_STAMP = struct.Struct(">qii").pack
STAMPED = 16
_REMEMBERED = 32
"""Positions of this many batches, and up to as many before them, are known without a look."""
_NOT_EVEN_OPENED = (errno.EMFILE, errno.ENFILE)
"""Descriptors ran out: nothing was written, and when connections end it will work again."""
_WORTH_SAVING = 128
"""Index entries that wait while syncs come fast; without them a recovery begins half a MiB earlier."""


class Log:
    __slots__ = (
        "_active",
        "_before",
        "_finder",
        "_new_files",
        "_offline",
        "_recent",
        "_segments",
        "aborted",
        "disk",
        "end",
        "epochs",
        "on_roll",
        "path",
        "recovered",
        "recovery_point",
        "settings",
        "start",
    )

    def __init__(self, path: Path, disk: Disk, settings: LogSettings, opened: Opened, *, new: bool) -> None:
        self.path = path
        self.disk = disk
        self.settings = settings
        self.epochs: LeaderEpochs = opened.epochs
        self.recovered: Recovered = opened.report
        """What opening had to do."""
        self.aborted = AbortedIndex(disk, path, self._segment_base)
        self.on_roll: Callable[[Offset], None] | None = None
        """Told the new segment's first offset, before there is one: the moment for a snapshot."""
        self._segments = opened.segments
        self._active = opened.segments[-1]
        self.start = Offset(opened.segments[0].base)
        self.end = Offset(self._active.next_offset)
        self.recovery_point = self.start
        self._offline = "" if opened.report.damage is None else str(opened.report.damage)
        self._new_files = new
        self._recent: dict[int, int] = {}
        self._before: dict[int, int] = {}
        self._finder = Finder(opened.segments)

    @classmethod
    def open(
        cls,
        path: Path,
        disk: Disk,
        settings: LogSettings,
        *,
        clean: bool,
        recovery_point: Offset | None,
        log_start: Offset | None,
        now_ms: int,
    ) -> Log:
        """`clean`: the last run ended with `close(clean=True)` and nothing has happened since."""
        try:
            new = not disk.exists(path)
            disk.mkdir(path)
            opened = open_segments(
                disk,
                path,
                clean=clean,
                recovery_point=recovery_point,
                log_start=log_start,
                interval=settings.index_interval_bytes,
                now_ms=now_ms,
            )
            log = cls(path, disk, settings, opened, new=new)
            names = map(layout.parse_file_name, disk.list(path))
            log.aborted.load([name[0] for name in names if name and name[1] == layout.TXN_INDEX])
            log._settle(recovery_point, log_start, now_ms)
        except OSError as error:
            raise StorageFailed(f"cannot open {path}: {error}") from error
        return log

    def _settle(self, recovery_point: int | None, log_start: int | None, now_ms: int) -> None:
        """What the checkpoints say of a log that was just opened."""
        if self.recovered.scanned_from is not None and self.recovered.damage is None:
            self.aborted.truncate_end(self.end)
        if log_start is not None and log_start > self.end and self.recovered.damage is None:
            # All that is left was deleted before, and its end was never synced: go on where the log should start.
            self._replace_all(Offset(log_start), now_ms)
        self.start = Offset(max(self.start, min(log_start or 0, self.end)))
        synced = self.end if self.recovered.scanned_from is None else recovery_point or 0
        self.recovery_point = Offset(max(self.start, min(synced, self.end)))
        self._drop_before(self.start)

    # --- append ---------------------------------------------------------------------------------------------------

    def append(self, batch: Batch, *, base: Offset, leader_epoch: int, now_ms: int) -> None:
        """`batch` is now in the log at `base`, or StorageFailed is raised and it is not."""
        if self._offline:
            raise StorageFailed(self._offline)
        assert base >= self.end, f"{base=} {self.end=}"
        active = self._active
        size = batch.size
        last = base + batch.last_offset_delta
        if roll_is_due(self.settings, active, size, last, batch.max_timestamp, now_ms):
            active = self.roll(now_ms)
        position = active.size
        try:
            if leader_epoch > self.epochs.latest:
                self.epochs.assign(leader_epoch, base, sync=self.settings.sync_rolls)
            active.file.append([_STAMP(base, size - LOG_OVERHEAD, leader_epoch), batch.buf[STAMPED:]])
        except OSError as error:
            self._cut_back(error)
        active.note(size, last, batch.max_timestamp)
        self.end = Offset(last + 1)
        recent = self._recent
        if len(recent) >= _REMEMBERED:
            self._before = recent
            self._recent = recent = {}
        recent[base] = position

    def _cut_back(self, error: OSError) -> None:
        """A write failed half way. Always raises."""
        active = self._active
        try:
            if error.errno not in _NOT_EVEN_OPENED:
                active.file.truncate(active.size)
        except OSError as again:
            self._offline = f"{active.path.name} could not be cut back to {active.size} bytes: {again}"
        raise StorageFailed(f"cannot append to {active.path.name}: {error}") from error

    def roll(self, now_ms: int) -> Segment:
        """Seal the active segment and begin another at `end`. Nothing has changed if this raises StorageFailed."""
        active = self._active
        if not active.size and active.base == self.end:
            return active
        try:
            if self.settings.sync_rolls:
                active.file.sync()
            if self.on_roll is not None:
                self.on_roll(self.end)
            fresh = self._new_segment(self.end, now_ms)
            if self.settings.sync_rolls:
                self.disk.sync_dir(self.path)
        except OSError as error:
            raise StorageFailed(f"cannot roll {active.path.name}: {error}") from error
        self._save_index(active, final=True)
        active.next_offset = self.end
        self._segments.append(fresh)
        self._active = fresh
        self._new_files = True
        self._recent, self._before = {}, {}
        self._finder.keep_warm(active)
        return fresh

    def _new_segment(self, base: Offset, now_ms: int) -> Segment:
        interval = self.settings.index_interval_bytes
        return Segment.create(self.disk, self.path, base, interval=interval, now_ms=now_ms)

    def roll_if_old(self, now_ms: int) -> bool:
        """For upkeep: seal an active segment that nobody writes to any more, so that it can grow too old to keep.

        By our own clock: records from the past must not roll a segment at every look.  Index files are brought up to
        date on the way, for those who look at the folder of a running broker.
        """
        self.save_indexes()
        active = self._active
        if self._offline or not active.size or now_ms - active.created_ms <= self.settings.segment_ms:
            return False
        self.roll(now_ms)
        return True

    # --- read -----------------------------------------------------------------------------------------------------

    def read(self, offset: Offset, *, max_bytes: int, end: Offset, at_least_one: bool = True) -> FileSlice | None:
        """Whole batches from the one that holds `offset` on, all with a base below `end`; None if there are none.

        At most `max_bytes`, but one batch in any case if `at_least_one`.
        """
        if offset < self.start or offset >= self.end:
            if self.recovered.damage is not None and offset >= self.end:
                raise CorruptMessage(str(self.recovered.damage))
            if offset == self.end:
                return None
            raise OffsetOutOfRange(f"offset {offset} is not in [{self.start}, {self.end}]")
        if offset >= end:
            return None
        position = self._recent.get(offset)
        if position is None:
            position = self._before.get(offset)
        active = self._active
        try:
            if position is not None and end >= self.end and active.size - position <= max_bytes:
                return self._slice(active, position, active.size)
            return self._look_up(offset, position, max_bytes, end, at_least_one)
        except OSError as error:
            raise StorageFailed(f"cannot read {self.path.name} at offset {offset}: {error}") from error

    def _look_up(
        self, offset: int, position: int | None, max_bytes: int, end: int, at_least_one: bool
    ) -> FileSlice | None:
        found = (self._active, position) if position is not None else self._finder.find(offset, end)
        if found is None:
            return None
        segment, start = found
        stop = segment.size if end >= segment.next_offset else self._position_of(segment, end)
        if stop - start > max_bytes:
            stop = min(stop, self._finder.furthest(segment, start, max_bytes, at_least_one=at_least_one))
        return self._slice(segment, start, stop) if stop > start else None

    def _position_of(self, segment: Segment, offset: int) -> int:
        """Where the first batch starts that has no offset below this one."""
        if segment is self._active:
            known = self._recent.get(offset)
            if known is None:
                known = self._before.get(offset)
            if known is not None:
                return known
        return segment.find_base(offset)

    def _slice(self, segment: Segment, position: int, stop: int) -> FileSlice:
        if self.disk.crowded:
            return FileSlice.read_now(segment.file, position, stop - position)
        return FileSlice(segment.file, position, stop - position)

    def batches(self, from_offset: Offset) -> Iterator[Batch]:
        """Every batch from the one that holds `from_offset` on, as it is now, with its bytes."""
        return self._finder.batches(from_offset)

    def batch_at(self, offset: Offset) -> Batch | None:
        """The batch that holds `offset`, or the next one."""
        return next(self._finder.batches(offset), None)

    def find_time(self, timestamp: int) -> Iterator[Batch]:
        """Batches, in order, that may hold a record of `timestamp` or later: their highest one is."""
        return self._finder.since(timestamp, self.start)

    def max_timestamp(self) -> tuple[int, Offset] | None:
        """The highest timestamp in the log and the last offset of the first batch that has it."""
        timestamp, offset = self._finder.top()
        return (timestamp, Offset(offset)) if timestamp >= 0 else None

    # --- what it is -----------------------------------------------------------------------------------------------

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Oldest first; the last one is active."""
        return tuple(self._segments)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def offline(self) -> str:
        """Why nothing can be appended; empty if it can."""
        return self._offline

    def _segment_base(self, offset: int) -> int:
        return self._segments[self._finder.segment_of(offset)].base

    # --- the head -------------------------------------------------------------------------------------------------

    def truncate_start(self, offset: Offset) -> None:
        """Records before `offset` are gone. Whoever promises that for good checkpoints `start` first."""
        if not self.start < offset <= self.end:
            return
        self.start = offset
        try:
            if self.epochs.truncate_start(offset):
                self.epochs.save(sync=False)
            self._drop_before(offset)
        except OSError as error:
            raise StorageFailed(f"cannot delete from {self.path.name}: {error}") from error

    def _drop_before(self, offset: int) -> None:
        while len(self._segments) > 1 and self._segments[1].base <= offset:
            self._drop(self._segments.pop(0))
            self.aborted.truncate_start(self._segments[0].base)

    def _drop(self, segment: Segment) -> None:
        """Readers that hold a slice of it finish; the file is unlinked but open."""
        self._finder.forget(segment)
        segment.file.close()
        remove_segment_files(self.disk, self.path, segment.base)

    def _replace_all(self, start: Offset, now_ms: int) -> None:
        fresh = self._new_segment(start, now_ms)
        for segment in self._segments:
            self._drop(segment)
        self._segments[:] = [fresh]
        self._active = fresh
        self.start = self.end = start
        self.aborted.truncate_start(start)

    # --- to the platter -------------------------------------------------------------------------------------------

    def unflushed(self) -> SyncJob | None:
        """What has to be synced for everything appended so far to survive a power cut; None if nothing has to."""
        if self.recovery_point >= self.end or self._offline:
            return None
        job = SyncJob(self.disk, upto=self.end)
        for segment in self._segments:
            if segment.next_offset > self.recovery_point and segment.size:
                self._save_index(segment, at_least=_WORTH_SAVING if segment is self._active else 1)
                job.add_file(segment.file)
                if segment is not self._active:
                    job.add_paths(segment.path.with_suffix(suffix) for suffix in layout.INDEXES)
        if self._new_files:
            job.add_folders(self.path, self.path.parent)
        return job

    def flushed(self, upto: Offset) -> None:
        """A job returned by `unflushed` was run."""
        self.recovery_point = max(self.recovery_point, min(upto, self.end))
        if self.recovery_point == self.end:
            self._new_files = False

    def flush(self) -> None:
        """Sync here and now."""
        job = self.unflushed()
        try:
            if job is not None:
                job.run()
                self.flushed(job.upto)
        except StorageFailed as error:
            self.go_offline(str(error))
            raise

    def go_offline(self, reason: str) -> None:
        """A sync failed: what was written since the last one may be gone, so nothing is promised any more."""
        self._offline = self._offline or reason

    def save_indexes(self) -> None:
        """Bring the index files up to date. If the disk refuses, they are made again some day."""
        self._save_index(self._active)

    def _save_index(self, segment: Segment, *, final: bool = False, at_least: int = 1) -> None:
        with suppress(OSError):
            segment.save_index(final=final, at_least=at_least)

    def close(self, clean: bool) -> None:
        """`clean`: everything is synced and the next open may believe the files. Else as if the power went."""
        try:
            if clean and self.recovered.damage is None:
                for segment in self._segments:
                    segment.save_index(final=segment is self._active)
                self.flush()
        except OSError as error:
            raise StorageFailed(f"cannot close {self.path.name} cleanly: {error}") from error
        finally:
            for segment in self._segments:
                segment.file.close()
