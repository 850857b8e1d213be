"""One new segment takes the place of several old ones, and a crash at any point loses neither.

    B.log.cleaned …      being written; the next start removes it
    B.log.swap           complete and synced: from here on the new one counts
    A.log.deleted …      the old ones, out of the way
    B.log                the new one has its name

The indexes are renamed before the log each time, so whether `B.log.swap` is there decides everything: if it is, a start
finishes the work; if not, whatever else is called `.swap` is a leftover.  Of the old segments a start can only tell
those that begin before the new one ends.  One that lies entirely in what compaction removed stays as it was, and the
next round removes it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from broker_lite.log import layout
from broker_lite.log.aborted import AbortedTxn
from broker_lite.log.disk import Disk
from broker_lite.log.graveyard import Graveyard
from broker_lite.log.index import SegmentIndex
from broker_lite.log.scan import steps

_PARTS = (*layout.INDEXES, layout.LOG)
"""The log last."""


def discard(disk: Disk, folder: Path, base: int) -> None:
    """Nothing has happened: what was made for this segment goes."""
    for part in _PARTS:
        disk.remove(folder / (layout.file_name(base, part) + layout.CLEANED))


def write_indexes(disk: Disk, folder: Path, base: int, index: SegmentIndex, aborted: list[AbortedTxn]) -> None:
    """Beside a cleaned log that is synced already: its indexes, synced too."""

    def write(part: str, data: bytes) -> None:
        disk.write_atomic(folder / (layout.file_name(base, part) + layout.CLEANED), data, sync=True)

    write(layout.INDEX, layout.format_index(index.offsets, index.positions))
    write(layout.TIME_INDEX, layout.format_time_index(index.times, index.time_offsets))
    if aborted:
        write(layout.TXN_INDEX, layout.format_aborted(aborted))


def promote(disk: Disk, folder: Path, base: int, *, aborted: bool) -> None:
    """The cleaned segment counts. OSError: it does not, and nothing has happened."""
    for part in _PARTS:  # of one that the disk refused before
        disk.remove(folder / (layout.file_name(base, part) + layout.SWAP))
    for part in _parts(aborted):
        name = layout.file_name(base, part)
        disk.replace(folder / (name + layout.CLEANED), folder / (name + layout.SWAP))


def make_way(graveyard: Graveyard, old: Iterable[int], *, delay_ms: int) -> None:
    """`old`, a list of bases, are out of the way. OSError: do it again."""
    for one in old:
        graveyard.bury(graveyard.names_of(one, _PARTS), delay_ms=delay_ms)


def commit(disk: Disk, folder: Path, base: int, *, aborted: bool) -> None:
    """The new one takes its place. OSError: do it again."""
    for part in _parts(aborted):
        name = layout.file_name(base, part)
        if disk.exists(folder / (name + layout.SWAP)):
            disk.replace(folder / (name + layout.SWAP), folder / name)


def _parts(aborted: bool) -> list[str]:
    return [part for part in _PARTS if aborted or part != layout.TXN_INDEX]


def finish_all(disk: Disk, folder: Path, names: Iterable[str]) -> bool:
    """At a start: every swap that had come so far is finished, every other trace of one removed. Was there any?"""
    swapped = [name for name in names if name.endswith(layout.SWAP)]
    bases = set()
    for name in swapped:
        found = layout.parse_file_name(name.removesuffix(layout.SWAP))
        if found is not None and found[1] == layout.LOG:
            bases.add(found[0])
    for base in sorted(bases):
        _finish(disk, folder, base)
    for name in swapped:
        disk.remove(folder / name)
    return bool(bases)


def _finish(disk: Disk, folder: Path, base: int) -> None:
    fresh = folder / (layout.file_name(base, layout.LOG) + layout.SWAP)
    for old in _replaced(disk, folder, base, _end_of(disk, fresh)):
        for part in _PARTS:
            disk.remove(folder / layout.file_name(old, part))
    for part in _PARTS:
        name = layout.file_name(base, part)
        if disk.exists(folder / (name + layout.SWAP)):
            disk.replace(folder / (name + layout.SWAP), folder / name)
    disk.sync_dir(folder)


def _replaced(disk: Disk, folder: Path, base: int, end: int) -> list[int]:
    """Old segments whose log is still there. If that is gone, so are its indexes, and what is there is new."""
    names = map(layout.parse_file_name, disk.list(folder))
    return sorted(found[0] for found in names if found and found[1] == layout.LOG and base <= found[0] < end)


def _end_of(disk: Disk, path: Path) -> int:
    """One past the last offset, at least one past the base."""
    file = disk.open_read(path)
    try:
        found = layout.parse_file_name(path.name.removesuffix(layout.SWAP))
        assert found is not None, path
        end = found[0] + 1
        for step in steps(file, 0, file.size):
            end = step.last + 1
        return end
    finally:
        file.close()
