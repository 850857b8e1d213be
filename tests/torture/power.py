"""A file system whose power can be cut: a file, mounted by a loop device, and the ioctl that stops it dead.

The shutdown drops everything that was not synced, as a power cut does; after unmounting and mounting again the journal
is replayed.  Needs root.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from pathlib import Path

_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


class Rig:
    def __init__(self, folder: Path, kind: str, megabytes: int) -> None:
        """OSError where this cannot be had."""
        self._image = folder / f"{kind}.img"
        self.mount_point = folder / kind
        self.mount_point.mkdir(parents=True)
        with self._image.open("wb") as image:
            image.truncate(megabytes << 20)
        _run(f"mkfs.{kind}", "-q", str(self._image))
        self.mount()

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.mount_point))

    def cut(self) -> None:
        """The power goes, and comes back."""
        fd = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(fd)
        self.unmount()
        self.mount()

    def unmount(self) -> None:
        _run("umount", str(self.mount_point))
