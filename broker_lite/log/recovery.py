"""Opening a log after anything.

After a clean stop the files are believed: the end is found from the last index entry, a few KiB of headers.

After anything else every batch from the recovery point on is checked, and indexes and epochs are made again on the
way.  Where a batch is not intact, one of two things happened:

- a *torn tail*: the crash cut a write short.  Nothing intact follows, no later segment holds anything, and all of it
  lies at or after the recovery point, so nobody was promised it.  The tail is kept beside as `.torn` and cut off.
- *damage*: anything else.  Nothing is deleted or overwritten.  The log opens up to the damage; reading on is refused
  with CORRUPT_MESSAGE and appending with KAFKA_STORAGE_ERROR.  A copy of the file is kept as `.corrupt`, and as long
  as that is there each start looks at the file again, clean stop or not.  With `cut_damage` the log ends there
  instead, as Kafka's would, and all that followed is kept as `.torn`.

All of it can be interrupted at any point and done again: a copy is complete before the original is changed, and the
rest is caches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from broker_lite.ids import Offset
from broker_lite.log import layout
from broker_lite.log.disk import Disk
from broker_lite.log.epochs import LeaderEpochs
from broker_lite.log.scan import Damaged, intact_after
from broker_lite.log.segment import Segment
from broker_lite.log.swap import finish_all
from broker_lite.records.batch import MAGIC
from broker_lite.shapes import dataclass, field

_LEFTOVERS = (".tmp", layout.DELETED, layout.CLEANED)
_EPOCHS_CHECKED_WHEN_CLEAN = 4


@dataclass(frozen=True, slots=True)
class Torn:
    """A tail that was cut off, and where it is kept."""

    path: Path
    offset: Offset
    position: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Damage:
    """The first place in a log that is not what was written."""

    path: Path
    offset: Offset
    """The first one that cannot be read."""
    position: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path.name} is damaged at byte {self.position}, offset {self.offset}: {self.reason}"


@dataclass(slots=True)
class Recovered:
    """What opening a log had to do, for whoever tells people."""

    scanned_from: Offset | None = None
    """None: a clean stop, nothing was scanned. Else what was derived from batches from here on may be stale."""
    scanned_bytes: int = 0
    torn: Torn | None = None
    damage: Damage | None = None


@dataclass(slots=True)
class Opened:
    segments: list[Segment]
    epochs: LeaderEpochs
    epochs_believed: bool
    report: Recovered = field(default_factory=Recovered)
    aborted: list[int] = field(default_factory=list)
    """Bases of the segments that have an index of aborted transactions."""
    new: bool = False
    """No log was there."""
    missing: bool = False
    """Not even a folder, and none was made: it will be when there is something to put into it."""


def open_segments(
    disk: Disk,
    folder: Path,
    *,
    clean: bool,
    recovery_point: int | None,
    log_start: int | None,
    interval: int,
    now_ms: int,
    make: bool,
    cut_damage: bool = False,
) -> Opened:
    new = not disk.exists(folder)
    if new and not log_start and not make:
        segment = Segment.empty(disk, folder, 0, interval=interval, now_ms=now_ms)
        return Opened([segment], LeaderEpochs(disk, folder), epochs_believed=True, new=True, missing=True)
    if new:
        disk.mkdir(folder)
    sizes = disk.sizes(folder)
    for name in sizes:
        if name.endswith(_LEFTOVERS):
            disk.remove(folder / name)
    if finish_all(disk, folder, sizes):
        sizes = disk.sizes(folder)
    names = [found for name in sizes if (found := layout.parse_file_name(name))]
    segments = [
        Segment(
            disk, folder, base, size=sizes[layout.file_name(base, layout.LOG)], interval=interval, created_ms=now_ms
        )
        for base in sorted(base for base, suffix in names if suffix == layout.LOG)
    ]
    if not segments:
        segments = [Segment.create(disk, folder, log_start or 0, interval=interval, now_ms=now_ms)]
        clean = True
    for segment, following in pairwise(segments):
        segment.next_offset = following.base

    point = recovery_point or 0
    for segment in segments:
        if layout.file_name(segment.base, layout.LOG) + layout.CORRUPT in sizes:
            clean, point = False, min(point, segment.base)
    if clean:
        try:
            segments[-1].adopt()
        except Damaged:
            clean, point = False, min(point, segments[-1].base)

    opened = Opened(segments, *_read_epochs(disk, folder), new=new)
    if not clean:
        _scan(opened, disk, folder, point, consecutive=recovery_point is not None, cut_damage=cut_damage)
    _settle_epochs(opened, newest=_EPOCHS_CHECKED_WHEN_CLEAN if clean else None)
    left = map(layout.parse_file_name, sizes if clean else disk.list(folder))
    opened.aborted = [name[0] for name in left if name and name[1] == layout.TXN_INDEX]
    return opened


def _scan(opened: Opened, disk: Disk, folder: Path, point: int, *, consecutive: bool, cut_damage: bool) -> None:
    """`consecutive`: the recovery point is known, and beyond it nothing was ever compacted."""
    segments, epochs, report = opened.segments, opened.epochs, opened.report
    number = max(0, bisect_right(segments, point, key=lambda segment: segment.base) - 1)
    report.scanned_from = Offset(max(point, segments[number].base))
    while number < len(segments):
        segment = segments[number]
        length = segment.size
        try:
            for step, _ in segment.recover(point, consecutive=consecutive):
                epochs.note(step.epoch, step.base)
                report.scanned_bytes += step.size
            if number + 1 < len(segments):
                later = segments[number + 1 :]
                known = consecutive or _ends_here(segment, later)
                _check_join(segment, later[0].base, missing_from=point if known else None)
        except Damaged as error:
            torn = _is_torn(segment, segments[number + 1 :], error, length=length, point=point)
            if torn or (cut_damage and error.position == segment.size):
                report.torn = _cut(disk, folder, segment, segments[number + 1 :], length=length)
                del segments[number + 1 :]
            else:
                report.damage = _keep(disk, segment, error)
                del segments[number + 1 :]
                break
        segment.save_index(final=number + 1 < len(segments))
        if number + 1 < len(segments):
            segment.next_offset = segments[number + 1].base
        number += 1


def _ends_here(segment: Segment, later: list[Segment]) -> bool:
    """Whether the log ends with this segment, whatever the names of empty ones behind it say.

    A segment is begun where the one before it ended, and compaction keeps the last batch it meets, so an offset
    missing here was lost: the power went before the segment's bytes were on the disk, but not before its name was.
    Only before there were batches did compaction remove the last message, too.
    """
    return not any(one.size for one in later) and (not segment.size or segment.header(0).magic == MAGIC)


class _Missing(Damaged):
    """The segment ends early, between two batches."""


def _check_join(segment: Segment, following: int, *, missing_from: int | None) -> None:
    if segment.next_offset > following:
        raise Damaged(segment.size, f"offsets up to {segment.next_offset} overlap the next segment")
    if missing_from is not None and segment.next_offset < following > missing_from:
        raise _Missing(segment.size, f"offset {segment.next_offset} is missing, the next segment has {following}")


def _is_torn(segment: Segment, later: list[Segment], error: Damaged, *, length: int, point: int) -> bool:
    return (
        segment.next_offset >= point
        and not any(one.size for one in later)
        and error.position == segment.size
        and (segment.size < length or isinstance(error, _Missing))
        and intact_after(segment.file, error.position, length, old=_is_old(segment)) is None
    )


def _is_old(segment: Segment) -> bool:
    """Whether a very old Kafka may have written it: what is good of it does not begin with a batch of today."""
    return not segment.size or segment.header(0).magic != MAGIC


def _cut(disk: Disk, folder: Path, segment: Segment, later: list[Segment], *, length: int) -> Torn:
    kept = folder / f"{segment.base:020d}.{segment.size}{layout.TORN}"
    if segment.size < length:
        disk.copy(segment.path, kept, start=segment.size)
    for one in later:
        if one.size:
            disk.copy(one.path, folder / f"{one.base:020d}.0{layout.TORN}")
        one.file.close()
        remove_segment_files(disk, folder, one.base)
    segment.truncate(segment.size)
    segment.file.sync()
    disk.remove(segment.path.with_name(segment.path.name + layout.CORRUPT))
    lost = length - segment.size + sum(one.size for one in later)
    return Torn(kept, Offset(segment.next_offset), segment.size, lost)


def _keep(disk: Disk, segment: Segment, error: Damaged) -> Damage:
    copy = segment.path.with_name(segment.path.name + layout.CORRUPT)
    if not disk.exists(copy):
        try:
            disk.copy(segment.path, copy)
        except OSError:
            disk.write_atomic(copy, b"", sync=False)  # no room for a copy: at least the mark
    return Damage(segment.path, Offset(segment.next_offset), error.position, str(error))


def remove_segment_files(disk: Disk, folder: Path, base: int) -> None:
    """The log last: as long as it is there, the others can be made again."""
    prefix = f"{base:020d}"
    names = [
        name
        for name in disk.sizes(folder)
        if name.startswith(prefix) and not name.endswith((layout.TORN, layout.CORRUPT))
    ]
    for name in sorted(names, key=lambda name: name.endswith(layout.LOG)):
        disk.remove(folder / name)


# --- leader epochs ------------------------------------------------------------------------------------------------


def _read_epochs(disk: Disk, folder: Path) -> tuple[LeaderEpochs, bool]:
    try:
        return LeaderEpochs.load(disk, folder), True
    except (ValueError, FileNotFoundError):
        return LeaderEpochs(disk, folder), False


def _settle_epochs(opened: Opened, *, newest: int | None) -> None:
    """Keep what the checkpoint said if its newest entries (None: all) fit the batches, else ask the batches."""
    epochs, segments = opened.epochs, opened.segments
    before = epochs.entries
    oldest = 0 if newest is None else max(0, len(before) - newest)
    try:
        believed = opened.epochs_believed and all(_fits(segments, before, n) for n in range(oldest, len(before)))
    except Damaged:
        believed = opened.epochs_believed
    if not believed and any(segment.size for segment in segments):
        _epochs_from_batches(epochs, segments)
    if opened.report.damage is None:
        epochs.truncate_end(segments[-1].next_offset)
    epochs.unsaved = False
    if epochs.entries != before or not opened.epochs_believed:
        epochs.save(sync=False)


def _fits(segments: list[Segment], entries: list[tuple[int, int]], number: int) -> bool:
    """Whether the batches change to this entry's epoch where it says, coming from the entry before."""
    epoch, start = entries[number]
    here = _epoch_of(segments, start)
    gone = here is None or (number + 1 < len(entries) and here[0] >= entries[number + 1][1])
    if not gone and here is not None and here[1] not in (epoch, -1):
        return False
    before = _epoch_of(segments, start - 1) if start > segments[0].base else None
    if before is None or before[0] >= start or before[1] < 0:
        return True
    if number and before[0] >= entries[number - 1][1]:
        return before[1] == entries[number - 1][0]
    return before[1] < epoch


def _epoch_of(segments: list[Segment], offset: int) -> tuple[int, int] | None:
    """Base and epoch of the first batch that ends at or after `offset`."""
    for segment in segments[max(0, bisect_right(segments, offset, key=lambda one: one.base) - 1) :]:
        step = segment.find(offset)
        if step is not None:
            return step.base, step.epoch
    return None


def _epochs_from_batches(epochs: LeaderEpochs, segments: list[Segment]) -> None:
    """Walks only through segments in which the epoch changes. The latest epoch keeps its name, records or not."""
    latest = epochs.latest
    epochs.clear()
    filled = [segment for segment in segments if segment.size]
    firsts = [_first_epoch(segment) for segment in filled]
    for number, segment in enumerate(filled):
        following = firsts[number + 1 : number + 2]
        _note_all(epochs, [(firsts[number], segment.base)] if [firsts[number]] == following else _epochs_in(segment))
    epochs.note(latest, segments[-1].next_offset)


def _note_all(epochs: LeaderEpochs, found: Iterable[tuple[int, int]]) -> None:
    try:
        for epoch, base in found:
            epochs.note(epoch, base)
    except Damaged:
        return  # what lies behind is not served, so nobody asks for its epoch


def _first_epoch(segment: Segment) -> int:
    try:
        return segment.header(0).epoch
    except Damaged:
        return -1


def _epochs_in(segment: Segment) -> Iterable[tuple[int, int]]:
    return ((step.epoch, step.base) for step in segment.steps())
