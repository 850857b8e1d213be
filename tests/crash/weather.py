"""What the disk does to a live broker: it refuses something for a while, fills up, heals."""

from __future__ import annotations

import errno
import random

from tests.crash.refusing_disk import RefusingDisk

WRITES = ("append", "append_bytes", "write_atomic")
NAMES = ("open", "mkdir", "replace", "rename", "remove", "remove_tree", "truncate")
SYNCS = ("sync", "sync_path", "sync_dir")
PLACES = (
    "*",
    "*.log",
    "*.index",
    "*.timeindex",
    "*.snapshot",
    "*.batches",
    "*-checkpoint*",
    "*leader-epoch*",
    "*partition.metadata*",
    "*@journal*",
    "*-delete*",
    "*/client0-*",
    "*/client1-*/*",
    "*.swap",
    "*.cleaned",
    "*.deleted",
)
FATAL = ("*", "*.log", "*@journal*")
"""Where a failed sync ends nearly everything, so it is rare."""
ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EMFILE, errno.EDQUOT)


class Weather:
    """Changes every few steps. `syncs`: syncs may fail, too, which a partition never survives."""

    def __init__(self, disk: RefusingDisk, chance: random.Random, *, syncs: bool) -> None:
        self._disk = disk
        self._chance = chance
        self._kinds = (*WRITES, *NAMES, *(SYNCS if syncs else ()))
        self._left = 0
        self.seen: list[str] = []

    def step(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self._left = self._chance.randrange(2, 12)
            self._change()

    def _change(self) -> None:
        chance, disk = self._chance, self._disk
        disk.heal()
        if chance.random() < 0.3:
            disk.evict()
        what = chance.random()
        if what < 0.4:
            self.seen.append("fine")
        elif what < 0.6:
            room = chance.choice((0, 10, 100, 1000, 5000))
            disk.fill(room)
            self.seen.append(f"room for {room} bytes")
        else:
            for _ in range(chance.randrange(1, 3)):
                kinds = chance.sample(self._kinds, chance.randrange(1, 4)) if chance.random() < 0.8 else ()
                place, error = chance.choice(PLACES), chance.choice(ERRORS)
                if place in FATAL and not set(kinds).isdisjoint(SYNCS) and chance.random() < 0.95:
                    place = "*/client0-*"
                if not kinds:
                    kinds = [kind for kind in self._kinds if kind not in SYNCS]
                disk.refuse(*kinds, path=place, error=error)
                self.seen.append(f"no {'/'.join(kinds)} of {place}: {errno.errorcode[error]}")
