"""The data folder: whose it is, how the last run ended, and how far each log was safe.

One process has it at a time. `meta.properties` says which cluster and node it belongs to; a broker with another name is
refused, because its clients would take one cluster for the other. The three offset checkpoints are written together,
often; the mark of a clean stop is written last and removed first.
"""

from __future__ import annotations

import base64
import errno
import threading
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from pathlib import Path

from broker_lite.errors import StartRefused
from broker_lite.ids import TopicPartition
from broker_lite.log import checkpoints, layout
from broker_lite.log.disk import Disk, Lock
from broker_lite.partition.partition import Partition
from broker_lite.shapes import dataclass, field

_CHECKPOINTS = (layout.RECOVERY_POINTS, layout.LOG_STARTS, layout.HIGH_WATERMARKS)
_NO_ID = "A" * 22


@dataclass(slots=True)
class _State:
    """What the three checkpoints say, and the how manieth state this is."""

    number: int
    columns: tuple[dict[TopicPartition, int], ...] = field(default_factory=lambda: ({}, {}, {}))


class DataFolder:
    def __init__(self, path: Path, disk: Disk, lock: Lock) -> None:
        self.path = path
        self.disk = disk
        self._lock = lock
        self.id = _NO_ID
        """Kafka's `directory.id`; folders from before KRaft have none."""
        self.was_clean = checkpoints.take_clean_shutdown(disk, path)
        self.recovery_points = checkpoints.read_offsets(disk, path / layout.RECOVERY_POINTS)
        self.log_starts = checkpoints.read_offsets(disk, path / layout.LOG_STARTS)
        self.high_watermarks = checkpoints.read_offsets(disk, path / layout.HIGH_WATERMARKS)
        self._numbers = count(1)
        self._written = _State(0)
        self._synced = False
        self._writing = threading.Lock()

    @classmethod
    def open(cls, path: Path, disk: Disk) -> DataFolder:
        """StartRefused, in one line, if this process cannot have the folder."""
        try:
            disk.mkdir(path)
            lock = disk.lock(path / layout.LOCK)
        except BlockingIOError:
            raise StartRefused(f"the data folder {path} is in use by another broker") from None
        except OSError as error:
            raise StartRefused(f"the data folder {path} cannot be used: {error.strerror or error}") from None
        return cls(path, disk, lock)

    def identify(self, *, node_id: int, cluster_id: str | None) -> str:
        """The cluster id: the one asked for, or the folder's, or a new one."""
        try:
            known = checkpoints.read_meta_properties(self.disk, self.path) or {}
        except UnicodeDecodeError as error:
            raise StartRefused(f"{self.path / layout.META_PROPERTIES} is damaged: {error}") from None
        if cluster_id is not None and known.get("cluster.id", cluster_id) != cluster_id:
            raise StartRefused(
                f"the data folder {self.path} belongs to the cluster {known['cluster.id']}, not to {cluster_id}"
            )
        node = known.get("node.id", known.get("broker.id", str(node_id)))  # broker.id: before KRaft
        if node != str(node_id):
            raise StartRefused(
                f"the data folder {self.path} belongs to node {node}, not to {node_id}: start with --node-id {node}"
            )
        if "cluster.id" in known:
            self.id = known.get("directory.id", self.id)
            return known["cluster.id"]
        cluster_id = cluster_id or _random_id()
        self.id = _random_id()
        properties = {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id), "directory.id": self.id}
        self._write_or_refuse(properties)
        return cluster_id

    def _write_or_refuse(self, properties: dict[str, str]) -> None:
        try:
            checkpoints.write_meta_properties(self.disk, self.path, properties)
        except OSError as error:
            why = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
            raise StartRefused(f"the data folder {self.path} cannot be written to: {why}") from None

    def checkpoint(self, partitions: Iterable[Partition], *, sync: bool) -> None:
        """Write down how far each log is safe, where it starts and what readers may see."""
        self._write(self._state_of(partitions), sync=sync)

    def checkpoint_later(self, partitions: Iterable[Partition]) -> Callable[[], None]:
        """The same, as of now and on the platter, for a thread to do."""
        return partial(self._write, self._state_of(partitions), sync=True)

    @property
    def busy(self) -> bool:
        """A thread is writing: whoever has time comes back later."""
        return self._writing.locked()

    def _state_of(self, partitions: Iterable[Partition]) -> _State:
        state = _State(next(self._numbers))
        for partition in partitions:
            if partition.log.missing:
                continue
            for offsets, offset in zip(state.columns, partition.checkpoint_state(), strict=True):
                offsets[partition.tp] = offset
        return state

    def _write(self, state: _State, *, sync: bool) -> None:
        with self._writing:
            if state.number < self._written.number:
                state = self._written  # somebody was faster and knew more
            if state.columns == self._written.columns and (self._synced or not sync):
                return
            for name, offsets in zip(_CHECKPOINTS, state.columns, strict=True):
                checkpoints.write_offsets(self.disk, self.path / name, offsets, sync=sync)
            self._written, self._synced = state, sync

    def close(self, *, clean: bool) -> None:
        if clean:
            checkpoints.mark_clean_shutdown(self.disk, self.path)
        self._lock.release()


def _random_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
