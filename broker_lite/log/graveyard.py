"""Deleted files on their way out.

A file that is deleted is first renamed to `.deleted`, and removed when `file.delete.delay.ms` are over: by then nobody
who looked at the folder from outside still wants it, and the work of giving back a gigabyte falls into upkeep.  Our own
readers need no delay, they hold leases.  What a crash leaves here the next start removes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from broker_lite.log import layout
from broker_lite.log.disk import Disk

_KEPT = (layout.TORN, layout.CORRUPT, layout.DELETED)


class Graveyard:
    __slots__ = ("_buried", "_disk", "_folder")

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk = disk
        self._folder = folder
        self._buried: dict[Path, float | None] = {}
        """When upkeep first saw it there."""

    def __len__(self) -> int:
        return len(self._buried)

    def bury(self, names: Iterable[str], *, delay_ms: int) -> None:
        """A segment's log comes last: as long as it is there, the others can be made again."""
        for name in sorted(names, key=lambda name: name.endswith(layout.LOG)):
            if delay_ms <= 0:
                self._disk.remove(self._folder / name)
            else:
                gone = self._folder / (name + layout.DELETED)
                self._disk.rename(self._folder / name, gone)
                self._buried[gone] = None

    def names_of(self, base: int, suffixes: Iterable[str] | None = None) -> list[str]:
        """The files of a segment that are there: all but what is kept for people, or those with these suffixes."""
        wanted = None if suffixes is None else {layout.file_name(base, suffix) for suffix in suffixes}
        return [
            name
            for name in self._disk.sizes(self._folder)
            if name.startswith(f"{base:020d}.") and not name.endswith(_KEPT) and (wanted is None or name in wanted)
        ]

    def sweep(self, monotonic: float, *, delay_ms: int, at_most: int) -> None:
        """Remove what has lain here for long enough. Seconds that never jump. OSError: one of them cannot be."""
        refused: OSError | None = None
        for path, since in list(self._buried.items())[:at_most]:
            if since is None:
                self._buried[path] = since = monotonic
            if (monotonic - since) * 1000 >= delay_ms:
                del self._buried[path]
                try:
                    self._disk.remove(path)
                except OSError as error:
                    refused = error
                    self._buried[path] = since  # behind the others
        if refused is not None:
            raise refused
