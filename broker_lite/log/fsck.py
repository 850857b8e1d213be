"""A look at every byte of a stopped broker's logs, and a knife for those that are damaged.

`examine` reads each segment from its first byte to its last and says where it is not what was written: from which byte
to which, which offsets that concerns, and what is wrong.  It changes nothing.

`cut` ends a damaged log before its first damage, which a broker never does by itself.  Nothing is thrown away: what is
cut off a segment, and every later segment whole, stays beside it as `.torn`.  Indexes of what was cut are removed, they
are made again; the mark of a clean stop goes too, so that the next start looks for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from broker_lite.ids import TopicPartition
from broker_lite.log import checkpoints, layout
from broker_lite.log.disk import Disk, File
from broker_lite.log.scan import Damaged, checked, intact_after
from broker_lite.records.batch import Batch
from broker_lite.shapes import dataclass

JOURNAL = "@journal"


@dataclass(frozen=True, slots=True)
class Finding:
    """A stretch of a file that is not what was written."""

    path: Path
    start: int
    end: int
    """Bytes, the last one not included."""
    offset: int
    """The first one that cannot be read."""
    reason: str
    cuts: bool = True
    """Whether the log has to end here; else it is only a cache that will be made again."""

    def __str__(self) -> str:
        bytes_ = self.end - self.start
        where = f"bytes {self.start} to {self.end - 1}, {bytes_} of them" if bytes_ else f"byte {self.start}"
        return f"{self.path}: {where}, from offset {self.offset} on: {self.reason}"


@dataclass(slots=True)
class Examined:
    """One log."""

    folder: Path
    segments: int
    bytes: int
    batches: int
    findings: list[Finding]


def examine_all(disk: Disk, root: Path) -> Iterator[Examined]:
    """Every partition of a data folder, and the broker's own journal, of which no offset is ever missing."""
    points = checkpoints.read_offsets(disk, root / layout.RECOVERY_POINTS)
    plain = disk.sizes(root)
    for name in sorted(set(disk.list(root)) - set(plain)):
        tp = layout.parse_folder_name(name)
        if tp is not None or name == JOURNAL:
            yield examine(disk, root / name, recovery_point=points.get(tp) if tp is not None else 0)


def examine(disk: Disk, folder: Path, *, recovery_point: int | None) -> Examined:
    sizes = disk.sizes(folder)
    found = [known for name in sizes if (known := layout.parse_file_name(name))]
    bases = sorted(base for base, suffix in found if suffix == layout.LOG)
    report = Examined(folder, len(bases), 0, 0, [])
    due = bases[0] if bases else 0
    for base in bases:
        path = folder / layout.file_name(base, layout.LOG)
        size = sizes[path.name]
        report.bytes += size
        if base < due:
            report.findings.append(
                Finding(path, 0, size, base, f"it overlaps the one before, which ends with {due - 1}")
            )
        elif base > due and recovery_point is not None and due >= recovery_point:
            report.findings.append(Finding(path, 0, 0, due, f"offsets {due} to {base - 1} are missing before it"))
        file = disk.open_read(path)
        try:
            due = _walk(file, path, base, size, recovery_point, report)
        finally:
            file.close()
    for base, suffix in found:
        if suffix in (layout.INDEX, layout.TIME_INDEX):
            report.findings += _look_at_index(disk, folder / layout.file_name(base, suffix), base, suffix)
    return report


def _walk(file: File, path: Path, base: int, size: int, recovery_point: int | None, report: Examined) -> int:
    """All of one segment; behind damage it goes on with the next intact batch. One past the last good offset."""
    position, due = 0, base
    while True:
        try:
            for step, _ in checked(file, position, size, base=due, consecutive_from=recovery_point):
                position, due = step.position + step.size, step.last + 1
                report.batches += 1
            return due
        except Damaged as error:
            resume = intact_after(file, error.position + 1, size, old=False)
            end = size if resume is None else resume
            reason = str(error).partition(": ")[2]
            if resume is not None:
                reason += f"; an intact batch follows at byte {resume}"
            report.findings.append(Finding(path, error.position, end, due, reason))
            if resume is None:
                return due
            position, due = resume, base


def intact_batches(disk: Disk, folder: Path, *, after: Finding) -> Iterator[tuple[Path, int, Batch]]:
    """What can still be read behind the place where a log would be cut."""
    for name, size in sorted(disk.sizes(folder).items()):
        found = layout.parse_file_name(name)
        if found is None or found[1] != layout.LOG or name < after.path.name:
            continue
        path = folder / name
        file = disk.open_read(path)
        try:
            for position, batch in _intact(file, after.start if path == after.path else 0, size, found[0]):
                yield path, position, batch
        finally:
            file.close()


def _intact(file: File, start: int, size: int, base: int) -> Iterator[tuple[int, Batch]]:
    position = intact_after(file, start, size, old=False)
    while position is not None:
        try:
            for step, body in checked(file, position, size, base=base, consecutive_from=None):
                yield step.position, Batch(body)
            return
        except Damaged as error:
            position = intact_after(file, error.position + 1, size, old=False)


def _look_at_index(disk: Disk, path: Path, base: int, suffix: str) -> list[Finding]:
    data = disk.read_bytes(path)
    try:
        (layout.parse_index if suffix == layout.INDEX else layout.parse_time_index)(data)
    except ValueError as error:
        return [Finding(path, 0, len(data), base, f"{error}; it will be made again", cuts=False)]
    return []


def first_damage(examined: Examined) -> Finding | None:
    """Where the log would have to end."""
    findings = (one for one in examined.findings if one.cuts)
    return min(findings, key=lambda one: (one.path.name, one.start), default=None)


def cut(disk: Disk, root: Path, examined: Examined) -> list[str]:
    """End the log before its first damage. What was done, a line for each file."""
    damage = first_damage(examined)
    if damage is None:
        return []
    folder = examined.folder
    checkpoints.take_clean_shutdown(disk, root)
    known = layout.parse_file_name(damage.path.name)
    assert known is not None, damage.path
    done = []
    for name, size in sorted(disk.sizes(folder).items()):
        found = layout.parse_file_name(name)
        if found is None or found[1] != layout.LOG or found[0] < known[0]:
            continue
        start = damage.start if found[0] == known[0] else 0
        kept = folder / f"{found[0]:020d}.{start}{layout.TORN}"
        disk.copy(folder / name, kept, start=start)
        for suffix in layout.INDEXES:
            disk.remove(folder / layout.file_name(found[0], suffix))
        if start or found[0] == known[0]:
            disk.truncate(folder / name, start)
            disk.sync_path(folder / name)
        else:
            disk.remove(folder / name)
        disk.remove(folder / (name + layout.CORRUPT))
        done.append(
            f"{folder / name}: cut off bytes {start} to {size - 1}, {size - start} of them, kept as {kept.name}"
        )
    disk.sync_dir(folder)
    _move_points(disk, root, layout.parse_folder_name(folder.name), damage.offset)
    return done


def _move_points(disk: Disk, root: Path, tp: TopicPartition | None, end: int) -> None:
    for name in (layout.RECOVERY_POINTS, layout.HIGH_WATERMARKS):
        offsets = checkpoints.read_offsets(disk, root / name)
        if tp is not None and offsets.get(tp, 0) > end:
            checkpoints.write_offsets(disk, root / name, {**offsets, tp: end}, sync=True)
