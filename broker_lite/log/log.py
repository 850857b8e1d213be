"""One partition's log: segments in order, of which the last one grows.

Always true:
- `start <= end`; offsets in [start, end) can be read, except gaps that compaction left;
- a batch is in the log when its whole write returned, and `end` moves only then.  A write that failed leaves no
  trace: the file is cut back to its last good length at once, or, if even that is refused, before the next batch.  The
  same goes for a roll: a file that it left behind is taken into use before the next batch;
- what lies before `recovery_point` was synced.  After a failed sync the log is offline: it can be read, and appending
  is refused until the next start.

An append is one writev of a 16-byte head, which carries the offset and the leader epoch, and the rest of the batch as
it came: no copy, and no new checksum, which covers neither.  Its cost knows neither how many logs there are nor how
long this one is.

A read answers with a stretch of one file, whole batches only.  For a reader at the tail the position is remembered
from the append; a reader that goes on where it stopped finds the position it stopped at.

The log is told the time, and has no lock: it belongs to one thread.  A `SyncJob` is what another thread may have.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from broker_lite.errors import BrokerError, CorruptMessage, OffsetOutOfRange, StorageFailed, UnknownTopicOrPartition
from broker_lite.ids import Offset
from broker_lite.log.aborted import AbortedIndex
from broker_lite.log.disk import Disk
from broker_lite.log.epochs import LeaderEpochs
from broker_lite.log.finder import Finder
from broker_lite.log.head import Head
from broker_lite.log.recent import FORGOTTEN, MOST, position_of
from broker_lite.log.recovery import Opened, Recovered
from broker_lite.log.rolling import roll_is_due
from broker_lite.log.segment import Segment
from broker_lite.log.settings import LogSettings as LogSettings
from broker_lite.log.slice import FileSlice
from broker_lite.log.sync import SyncJob, a_few, job_for
from broker_lite.records.batch import LOG_OVERHEAD, Batch

_STAMP = struct.Struct(">qii").pack
STAMPED = 16
_LONG = 1 << 17
_AHEAD = 1 << 20
"""Who reads that much at once, and is far from the end, comes back for the next MiB: the disk gives it while this one
is sent.  A cold log is read in half the time, and the loop waits for a tenth of it.  24 µs where it was in memory."""


class Log:
    __slots__ = (
        "_active",
        "_new_files",
        "_offline",
        "_recent",
        "_roll_begun",
        "_segments",
        "_stamped",
        "_uncut",
        "_unready",
        "aborted",
        "deleted",
        "disk",
        "end",
        "epochs",
        "finder",
        "head",
        "missing",
        "on_make",
        "on_roll",
        "path",
        "recovered",
        "recovery_point",
        "settings",
        "start",
    )

    def __init__(self, path: Path, disk: Disk, settings: LogSettings, opened: Opened) -> None:
        self.path = path
        self.disk = disk
        self.settings = settings
        self.epochs: LeaderEpochs = opened.epochs
        self.recovered: Recovered = opened.report
        """What opening had to do."""
        self.aborted = AbortedIndex(disk, path, self._segment_base)
        self.on_roll: Callable[[Offset], None] | None = None
        """Told the new segment's first offset before there is one: the moment for a snapshot."""
        self.on_make: Callable[[], None] | None = None
        """Called when the folder was made, which is when the first batch comes."""
        self._segments = opened.segments
        self._active = opened.segments[-1]
        self.start = Offset(opened.segments[0].base)
        self.end = Offset(self._active.next_offset)
        self.recovery_point = self.start
        self._offline = "" if opened.report.damage is None else str(opened.report.damage)
        self.deleted = False
        """Its topic is gone, and the folder may be another's by now."""
        self.missing = opened.missing
        """Nothing was ever written, so there is no folder yet."""
        self._uncut = False
        """Half a batch may follow the last good one."""
        self._roll_begun = False
        """There may be an empty file for the next segment: a batch that went before it would be taken for damage."""
        self._unready = opened.missing  # one of the three
        self._new_files = opened.new
        self._stamped = -1
        """The epoch of the last batch appended, which is written down."""
        self._recent = array("Q")
        """Where the last batches of the active segment begin; see recent.py."""
        self.finder = Finder(opened.segments)
        self.head = Head(disk, path, opened.segments, self.finder, self.aborted, self.epochs)

    # --- append ---------------------------------------------------------------------------------------------------

    def append(self, batch: Batch, *, base: Offset, leader_epoch: int, now_ms: int) -> None:
        """`batch` is now in the log at `base`, or StorageFailed is raised and it is not."""
        if self._offline:
            raise self.offline_error()
        if self._unready:
            self._prepare(now_ms)
        assert base >= self.end, f"{base=} {self.end=}"
        active, size = self._active, batch.size
        last = base + batch.last_offset_delta
        if roll_is_due(self.settings, active, size, last, batch.max_timestamp, now_ms):
            active = self.roll(now_ms)
        position = active.size
        try:
            if leader_epoch != self._stamped:
                self._begin_epoch(leader_epoch, base)
            active.file.append([_STAMP(base, size - LOG_OVERHEAD, leader_epoch), batch.buf[STAMPED:]])
        except OSError as error:
            self._refuse(error)
        active.note(size, last, batch.max_timestamp)
        self.end = Offset(last + 1)
        recent = self._recent
        if len(recent) >= MOST:
            del recent[:FORGOTTEN]
        recent.append(base - active.base << 32 | position)

    def _prepare(self, now_ms: int) -> None:
        """Finish what the disk refused before; StorageFailed if it still does."""
        if self.missing:
            self._make()
        if self._uncut:
            self._cut_back()
        if self._roll_begun:
            self.roll(now_ms)
        self._unready = False

    def _make(self) -> None:
        """The folder, with the first batch: most partitions of a large catalogue never get one. Its small files are
        synced with that batch."""
        try:
            self.disk.mkdir(self.path)
            if self.on_make is not None:
                self.on_make()
            self.epochs.save(sync=False)
        except OSError as error:
            raise StorageFailed(f"cannot make {self.path.name}: {error}") from error
        self.missing = False

    def _begin_epoch(self, epoch: int, base: Offset) -> None:
        """Written down before the first batch that is stamped with it, and synced with it."""
        self.epochs.note(epoch, base)
        if self.epochs.unsaved:
            self.epochs.save(sync=False)
            self._new_files = True
        self._stamped = epoch

    def _refuse(self, error: OSError) -> NoReturn:
        """A write failed half way."""
        self._uncut = self._unready = True
        with suppress(StorageFailed):
            self._cut_back()
        raise StorageFailed(f"cannot append to {self._active.path.name}: {error}") from error

    def _cut_back(self) -> None:
        active = self._active
        try:
            active.file.truncate(active.size)
        except OSError as error:
            raise StorageFailed(f"cannot cut {active.path.name} back to {active.size} bytes: {error}") from error
        self._uncut = False

    def roll(self, now_ms: int) -> Segment:
        """Seal the active segment and begin another at `end`. StorageFailed: not yet, but before the next batch."""
        if not (active := self._active).size and active.base == self.end:
            return active
        try:
            if self._uncut:
                self._cut_back()
            self._sync_roll(active.file.sync)
            if self.on_roll is not None:
                self.on_roll(self.end)
            self._roll_begun = self._unready = True
            fresh = self._new_segment(self.end, now_ms)
            self._sync_roll(self.disk.sync_dir, self.path)
        except OSError as error:
            raise StorageFailed(f"cannot roll {active.path.name}: {error}") from error
        self._roll_begun = False
        self.save_index(final=True)
        active.next_offset = self.end
        self._segments.append(fresh)
        self._active = fresh
        self._new_files = True
        del self._recent[:]
        self.finder.keep_warm(active)
        return fresh

    def _sync_roll(self, sync: Callable[..., None], *arguments: Path) -> None:
        """The kernel tells of a failure only once, so there is no second try."""
        if self.settings.sync_rolls:
            try:
                sync(*arguments)
            except OSError as error:
                self.go_offline(f"cannot sync {self.path.name}: {error}")
                raise

    def _new_segment(self, base: Offset, now_ms: int) -> Segment:
        return Segment.create(self.disk, self.path, base, interval=self.settings.index_interval_bytes, now_ms=now_ms)

    # --- read -----------------------------------------------------------------------------------------------------

    def read(self, offset: Offset, *, max_bytes: int, end: Offset, at_least_one: bool = True) -> FileSlice | None:
        """Whole batches from the one that holds `offset` on, all with a base below `end`; None if there are none.
        At most `max_bytes`, but one batch in any case if `at_least_one`."""
        if offset < self.start or offset >= self.end:
            if self.recovered.damage is not None and offset >= self.end:
                raise CorruptMessage(str(self.recovered.damage))
            if offset == self.end:
                return None
            raise OffsetOutOfRange(f"offset {offset} is not in [{self.start}, {self.end}]")
        if offset >= end:
            return None
        position = self._known(offset)
        active = self._active
        try:
            if position is not None and end >= self.end and active.size - position <= max_bytes:
                return self._slice(active, position, active.size)
            found = (active, position) if position is not None else self.finder.find(offset, end)
            if found is None:
                return None
            segment, start = found
            stop = self.finder.stop(segment, start, max_bytes, end, self._known(end), at_least_one=at_least_one)
            if stop - start >= _LONG and segment.size - stop >= _AHEAD:
                segment.file.expect(stop, _AHEAD)
            return self._slice(segment, start, stop) if stop > start else None
        except OSError as error:
            raise StorageFailed(f"cannot read {self.path.name} at offset {offset}: {error}") from error

    def _known(self, offset: int) -> int | None:
        """Where in the active segment the batch begins that was appended at `offset` a moment ago."""
        return position_of(offset - self._active.base, self._recent)

    def _slice(self, segment: Segment, position: int, stop: int) -> FileSlice:
        if self.disk.crowded:
            return FileSlice.read_now(segment.file, position, stop - position)
        return FileSlice(segment.file, position, stop - position)

    def batches(self, from_offset: Offset, *, old: bool = True) -> Iterator[Batch]:
        """Every batch from the one that holds `from_offset` on; not `old`: without messages older than batches."""
        return self.finder.batches(from_offset, old=old)

    def batch_at(self, offset: Offset) -> Batch | None:
        """The batch that holds `offset`, or the next one."""
        return next(self.finder.batches(offset), None)

    def find_time(self, timestamp: int) -> Iterator[Batch]:
        """Batches, in order, that may hold a record of `timestamp` or later: their highest one is."""
        return self.finder.since(timestamp, self.start)

    def max_timestamp(self) -> tuple[int, Offset] | None:
        """The highest timestamp in the log and the last offset of the first batch that has it."""
        timestamp, offset = self.finder.top()
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

    def offline_error(self) -> BrokerError:
        """What to tell whoever wants to append to a log that is offline."""
        if self.deleted:
            return UnknownTopicOrPartition(f"{self.path.name} was deleted")
        return StorageFailed(self._offline)

    def _segment_base(self, offset: int) -> int:
        return self._segments[self.finder.segment_of(offset)].base

    # --- the head -------------------------------------------------------------------------------------------------

    def truncate_start(self, offset: Offset) -> None:
        """Records before `offset` are gone. Whoever promises that for good checkpoints `start` first."""
        if self.start < offset <= self.end:
            self.start = offset
            self.epochs.truncate_start(offset)
            with suppress(OSError):
                self.tidy()

    def tidy(self) -> None:
        """Files follow what was decided. OSError: the disk refuses, and can be asked again."""
        if not self._offline:  # else its folder may be another's by now
            self.head.tidy(self.start, delay_ms=self.settings.cleanup.file_delete_delay_ms)

    def let_go(self) -> None:
        """The work on sealed segments is done; what was deleted meanwhile goes now."""
        self.head.held = False
        with suppress(OSError):
            self.tidy()

    def begin_again(self, start: Offset, now_ms: int) -> None:
        """Nothing of what is here counts: the next record has this offset."""
        fresh = self._new_segment(start, now_ms)
        for segment in self._segments:
            self.head.drop(segment, delay_ms=self.settings.cleanup.file_delete_delay_ms)
        self._segments[:] = [fresh]
        self._active = fresh
        self.start = self.end = start
        self.aborted.truncate_start(start)

    # --- to the platter -------------------------------------------------------------------------------------------

    def unflushed(self, *, sealed: bool = False) -> SyncJob | None:
        """What has to be synced for everything appended so far to survive a power cut; None if nothing has to.

        `sealed`: a few of those before the active segment, which may be synced at leisure.
        """
        upto = Offset(self._active.base) if sealed else self.end
        if self.recovery_point >= upto or self._offline:
            return None
        segments = self._segments
        if sealed:
            segments, upto = a_few(segments, self.finder.segment_of(self.recovery_point))
        return job_for(
            self.disk, self.path, segments, self._active, since=self.recovery_point, upto=upto, new=self._new_files
        )

    @property
    def has_unsynced_sealed(self) -> bool:
        return self.recovery_point < self._active.base and not self._offline

    def flushed(self, upto: Offset) -> None:
        """A job returned by `unflushed` was run."""
        self.recovery_point = max(self.recovery_point, min(upto, self.end))
        if self.recovery_point == self.end:
            self._new_files = False

    def flush(self) -> None:
        """Sync here and now."""
        try:
            while (job := self.unflushed(sealed=True) or self.unflushed()) is not None:
                job.run()
                self.flushed(job.upto)
        except StorageFailed as error:
            self.go_offline(str(error))
            raise

    def go_offline(self, reason: str) -> None:
        """A sync failed: what was written since the last one may be gone, so nothing is promised any more."""
        self._offline = self._offline or reason

    def save_index(self, *, final: bool = False) -> None:
        """Bring the active index files up to date. If the disk refuses, they are made again some day."""
        with suppress(OSError):
            self._active.save_index(final=final)

    def close(self, clean: bool) -> None:
        """`clean`: everything is synced and the next open may believe the files. Else as if the power went."""
        try:
            if clean and self.recovered.damage is None and not self.missing:
                if self._uncut:
                    self._cut_back()
                self.aborted.save()
                for segment in self._segments:
                    segment.save_index(final=segment is self._active)
                if self.epochs.unsaved:  # clients have heard of it, so it should not fall; no record bears it
                    self.epochs.save(sync=False)
                self.flush()
        except OSError as error:
            raise StorageFailed(f"cannot close {self.path.name} cleanly: {error}") from error
        finally:
            self._offline = self._offline or f"{self.path.name} is closed"
            for segment in self._segments:
                segment.file.close()
