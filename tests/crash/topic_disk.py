"""A disk whose files of one topic can be slow or refuse, while the others work: told so by a test, and healed by it."""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from pathlib import Path

from broker_lite.log.disk import Bytes
from tests.crash.faulty_disk import FaultyDisk, FaultyFile

LONGEST = 30.0
"""Seconds after which a sync that is held goes on by itself: a test that fails must not wait for ever."""


class TopicFile(FaultyFile):
    def append(self, buffers: Sequence[Bytes]) -> None:
        self._disk_of_topics.check(self.path, "append")
        super().append(buffers)

    def sync(self) -> None:
        self._disk_of_topics.wait(self.path)
        self._disk_of_topics.check(self.path, "sync")
        super().sync()

    @property
    def _disk_of_topics(self) -> TopicDisk:
        assert isinstance(self._disk, TopicDisk)
        return self._disk


class TopicDisk(FaultyDisk):
    def __init__(self) -> None:
        super().__init__()
        self._held: dict[str, threading.Event] = {}
        self._refused: dict[tuple[str, str], int] = {}

    def hold(self, topic: str) -> None:
        """Syncs of this topic's segments wait from now on."""
        self._held[topic] = threading.Event()

    def release(self, topic: str) -> None:
        self._held.pop(topic).set()

    def refuse(self, topic: str, kind: str = "append", *, after: int = 0) -> None:
        """The calls of this kind, `append` or `sync`, that come after so many more fail until `heal`."""
        self._refused[topic, kind] = after

    def heal(self) -> None:
        self._refused.clear()

    def wait(self, path: Path) -> None:
        held = self._held.get(_topic(path))
        if held is not None:
            held.wait(LONGEST)

    def check(self, path: Path, kind: str) -> None:
        left = self._refused.get((_topic(path), kind))
        if left is None:
            return
        if left == 0:
            raise OSError(errno.ENOSPC if kind == "append" else errno.EIO, f"refused by the test: {kind}")
        self._refused[_topic(path), kind] = left - 1

    def open_append(self, path: Path, *, size: int | None = None) -> FaultyFile:
        opened = super().open_append(path, size=size)
        assert isinstance(opened, FaultyFile)
        return TopicFile(self, opened._file)


def _topic(path: Path) -> str:
    return path.parent.name.rpartition("-")[0]
