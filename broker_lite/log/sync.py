"""What a thread is given to sync: leased files and names, none of our objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from operator import call
from pathlib import Path

from broker_lite.errors import StorageFailed
from broker_lite.ids import Offset
from broker_lite.log import layout
from broker_lite.log.disk import Disk, File
from broker_lite.log.segment import Segment

_WORTH_SAVING = 128
"""Index entries that wait while syncs come fast; without them a recovery begins half a MiB earlier."""
_SEALED_AT_ONCE = 16
_MANY, _AT_ONCE = 32, 8
"""Files, and how many of them at once: syncs that run side by side share a commit of the file system's own journal, and
2,000 files take less than half the time."""


class NotBegun(StorageFailed):
    """A file could not even be opened: nothing was synced, and nothing is lost. It can be tried again."""


class SyncJob:
    """Run it once, anywhere; then everything before `upto` is on the platter."""

    __slots__ = ("_disk", "_files", "_folders", "_paths", "upto")

    def __init__(self, disk: Disk, *, upto: Offset) -> None:
        self._disk = disk
        self._files: list[File] = []
        self._paths: list[Path] = []
        self._folders: list[Path] = []
        self.upto = upto

    def add_file(self, file: File) -> None:
        try:
            file.acquire()
        except OSError as error:
            raise NotBegun(f"cannot open {file.path.name} to sync it: {error}") from error
        self._files.append(file)

    def add_paths(self, paths: Iterable[Path]) -> None:
        """Files that may be missing."""
        self._paths.extend(paths)

    def add_folders(self, *folders: Path) -> None:
        self._folders.extend(folders)

    def run(self) -> None:
        """Raises StorageFailed; then the log must go offline, for a second try would lie."""
        steps: list[Callable[[], None]] = [file.sync for file in self._files]
        steps += [partial(self._unless_missing, self._disk.sync_path, path) for path in self._paths]
        try:
            _run_all(steps)
            for folder in self._folders:
                self._unless_missing(self._disk.sync_dir, folder)
        except OSError as error:
            raise StorageFailed(f"cannot sync: {error}") from error
        finally:
            self.release()

    @staticmethod
    def _unless_missing(sync: Callable[[Path], None], path: Path) -> None:
        with suppress(FileNotFoundError):  # deleted meanwhile, and what is deleted need not survive
            sync(path)

    def release(self) -> None:
        files, self._files = self._files, []
        for file in files:
            file.release()

    def __del__(self) -> None:
        self.release()


def _run_all(steps: list[Callable[[], None]]) -> None:
    if len(steps) < _MANY:
        for step in steps:
            step()
        return
    from concurrent.futures import ThreadPoolExecutor  # few have so much to sync, and a start is short

    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(call, steps):
                pass  # the first that fails is raised, and what has not begun then does not
    except RuntimeError:  # no thread can be started; to sync some twice harms nobody
        for step in steps:
            step()


def a_few(segments: list[Segment], first: int) -> tuple[list[Segment], Offset]:
    """Sealed segments from number `first` on, and where they end: of much work on a slow disk each part counts,
    whatever happens before the rest is done."""
    after = min(first + _SEALED_AT_ONCE, len(segments) - 1)
    return segments[first:after], Offset(segments[after].base)


def job_for(
    disk: Disk, folder: Path, segments: Iterable[Segment], active: Segment, *, since: Offset, upto: Offset, new: bool
) -> SyncJob:
    """`new`: files or folders were made since the last sync of everything."""
    job = SyncJob(disk, upto=upto)
    for segment in segments:
        if segment.next_offset > since and segment.size:
            with suppress(OSError):
                segment.save_index(at_least=_WORTH_SAVING if segment is active else 1)
            job.add_file(segment.file)
            if segment is not active:
                job.add_paths(segment.path.with_suffix(suffix) for suffix in layout.INDEXES)
    if new:
        job.add_paths(folder / name for name in (layout.PARTITION_METADATA, layout.LEADER_EPOCHS))
        job.add_folders(folder, folder.parent)
    return job
