"""A ceiling on the memory of a process and its children, by the kernel: who goes through it is killed.

Needs root and a cgroup file system that can be written to, of either version.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import until

ROOT = Path("/sys/fs/cgroup")
OLD = ROOT / "memory"
_ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


@dataclass(frozen=True, slots=True)
class Ceiling:
    folder: Path | None
    """None: there is none, because we may not make one."""

    @property
    def is_real(self) -> bool:
        return self.folder is not None

    def around(self, *command: str) -> list[str]:
        """The command, under the ceiling if there is one."""
        return list(command) if self.folder is None else ["sh", "-c", _ENTER, str(self.folder), *command]

    @property
    def broker(self) -> list[str]:
        return self.around(sys.executable, "-m", "broker_lite")

    @property
    def killed(self) -> int:
        """How many the kernel killed here."""
        if self.folder is None:
            return 0
        said = self.folder / ("memory.events" if (self.folder / "memory.events").exists() else "memory.oom_control")
        counts = dict(line.split() for line in said.read_text().splitlines())
        return int(counts["oom_kill"])


@contextmanager
def ceiling(size: int) -> Iterator[Ceiling]:
    """A new group; if that cannot be had, one without effect."""
    parent = OLD if OLD.is_dir() else ROOT
    folder = parent / f"broker-lite-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError:
        yield Ceiling(None)
        return
    try:
        if parent == OLD:
            (folder / "memory.limit_in_bytes").write_text(str(size))
        else:
            (folder / "memory.max").write_text(str(size))
    except OSError:
        folder.rmdir()
        yield Ceiling(None)
        return
    try:
        yield Ceiling(folder)
    finally:
        until(lambda: _gone(folder), within=10, what="everybody left the cgroup")


def _gone(folder: Path) -> bool:
    try:
        folder.rmdir()
    except OSError:
        return False
    return True
