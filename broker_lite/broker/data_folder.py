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
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

from broker_lite.broker.meta_properties import NO_DIRECTORY_ID, read_meta_properties
from broker_lite.errors import StartRefused
from broker_lite.ids import Offset, TopicPartition
from broker_lite.log import checkpoints, layout
from broker_lite.log.disk import Disk, Lock
from broker_lite.logs import get_logger
from broker_lite.partition.partition import Partition
from broker_lite.shapes import dataclass

log = get_logger(__name__)

_CHECKPOINTS = (layout.RECOVERY_POINTS, layout.LOG_STARTS, layout.HIGH_WATERMARKS)


Columns = dict[str, dict[TopicPartition, int]]
"""For each checkpoint what it says."""


@dataclass(slots=True)
class _Written:
    """What a checkpoint says now."""

    number: int = 0
    """The how manieth state it was part of."""
    offsets: dict[TopicPartition, int] | None = None
    """None: nobody knows, because a write failed."""
    synced: bool = False


class DataFolder:
    def __init__(self, path: Path, disk: Disk, lock: Lock) -> None:
        self.path = path
        self.disk = disk
        self._lock = lock
        self.id = NO_DIRECTORY_ID
        """Kafka's `directory.id`; folders from before KRaft have none."""
        self.was_clean = checkpoints.is_clean_shutdown(disk, path)
        """The mark stays until `begin`: a start that is refused before leaves the folder as it was."""
        self.recovery_points = checkpoints.read_offsets(disk, path / layout.RECOVERY_POINTS)
        self.log_starts = _read_log_starts(disk, path)
        self.high_watermarks = checkpoints.read_offsets(disk, path / layout.HIGH_WATERMARKS)
        self._begun = False
        self._properties: dict[str, str] = {}
        """What is to be written down of a new folder."""
        self._numbers = count(1)
        self._written = {name: _Written() for name in _CHECKPOINTS}
        self._writing = threading.Lock()
        self._moving = False

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
        try:
            return cls(path, disk, lock)
        except StartRefused:
            lock.release()
            raise
        except OSError as error:
            lock.release()
            raise StartRefused(f"the data folder {path} cannot be used: {error.strerror or error}") from None

    def begin(self) -> None:
        """From here on the folder may change. The mark of a clean stop goes, so it never vouches for two runs."""
        checkpoints.take_clean_shutdown(self.disk, self.path)
        self._begun = True
        if self._properties:
            self._write_or_refuse(self._properties)

    def identify(self, *, node_id: int, cluster_id: str | None) -> str:
        """The cluster id: the one asked for, or the folder's, or a new one, which `begin` writes down."""
        known = read_meta_properties(self.disk, self.path)
        owner = None if known is None else known.cluster_id
        if None not in (owner, cluster_id) and owner != cluster_id:
            raise StartRefused(f"the data folder {self.path} belongs to the cluster {owner}, not to {cluster_id}")
        node = None if known is None else known.node_id
        if node not in (node_id, None):
            raise StartRefused(
                f"the data folder {self.path} belongs to node {node}, not to {node_id}: start with --node-id {node}"
            )
        if known is not None and owner is not None:
            self.id = known.directory_id
            return owner
        cluster_id = cluster_id or _random_id()
        self.id = _random_id()
        self._properties = {
            "version": "1",
            "cluster.id": cluster_id,
            "node.id": str(node_id),
            "directory.id": self.id,
        }
        return cluster_id

    def _write_or_refuse(self, properties: dict[str, str]) -> None:
        try:
            checkpoints.write_meta_properties(self.disk, self.path, properties)
        except OSError as error:
            why = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
            raise StartRefused(f"the data folder {self.path} cannot be written to: {why}") from None

    def checkpoint(self, partitions: Iterable[Partition], *, sync: bool) -> None:
        """Write down how far each log is safe, where it starts and what readers may see."""
        self._write(next(self._numbers), _columns(partitions), sync=sync)

    def checkpoint_later(self, partitions: Iterable[Partition]) -> Callable[[], None]:
        """How far each log is safe and what readers may see, as of now and on the platter, for a thread to do."""
        columns = _columns(partitions)
        del columns[layout.LOG_STARTS]
        return partial(self._write, next(self._numbers), columns, sync=True)

    def log_starts_later(
        self, partitions: Iterable[Partition], moved: Mapping[Partition, Offset], *, sync: bool
    ) -> Callable[[], None]:
        """Where each log starts, as of now and for some as it will be, for a thread to do: on disk when it returns.

        OSError: the file says what it said before. From now on until `log_starts_written` nobody else may write it.
        """
        self._moving = True
        now: dict[TopicPartition, int] = {}
        later: dict[TopicPartition, int] = {}
        for partition in partitions:
            if not partition.log.missing:
                start = now[partition.tp] = partition.offsets.start
                later[partition.tp] = max(start, moved.get(partition, start))
        return partial(self._move_log_starts, next(self._numbers), now, later, sync=sync)

    def log_starts_written(self) -> None:
        self._moving = False

    @property
    def busy(self) -> bool:
        """A thread is writing, or what it wrote does not yet count: whoever has time comes back later."""
        return self._moving or self._writing.locked()

    def _move_log_starts(
        self, number: int, now: dict[TopicPartition, int], later: dict[TopicPartition, int], *, sync: bool
    ) -> None:
        try:
            self._write(number, {layout.LOG_STARTS: later}, sync=sync)
        except OSError:
            # The folder may have the new name, and only its sync failed. Nobody is told of the new starts.
            with suppress(OSError):
                self._write(number, {layout.LOG_STARTS: now}, sync=False)
            raise

    def _write(self, number: int, columns: Columns, *, sync: bool) -> None:
        assert self._begun, f"{self.path} is written to before the mark of a clean stop is gone"
        with self._writing:
            for name, offsets in columns.items():
                known, state = self._written[name], _Written(number, offsets, sync)
                if number < known.number and known.offsets is not None:
                    state = _Written(known.number, known.offsets, sync)  # somebody was faster and knew more
                if state.offsets == known.offsets and (known.synced or not sync):
                    continue
                assert state.offsets is not None
                self._written[name] = _Written(state.number)
                checkpoints.write_offsets(self.disk, self.path / name, state.offsets, sync=sync)
                self._written[name] = state

    def close(self, *, clean: bool) -> bool:
        """Whether the next start may believe all it finds."""
        try:
            if clean:
                checkpoints.mark_clean_shutdown(self.disk, self.path)
        except OSError as error:
            log.error("data_folder.not_closed", path=str(self.path), reason=str(error))
            return False
        finally:
            self._lock.release()
        return clean


def _columns(partitions: Iterable[Partition]) -> Columns:
    columns: Columns = {name: {} for name in _CHECKPOINTS}
    for partition in partitions:
        if not partition.log.missing:
            for offsets, offset in zip(columns.values(), partition.checkpoint_state(), strict=True):
                offsets[partition.tp] = offset
    return columns


def _read_log_starts(disk: Disk, path: Path) -> dict[TopicPartition, int]:
    """Where each log starts. To take a damaged file for none would bring back what was deleted."""
    try:
        found = checkpoints.read_log_starts(disk, path)
    except ValueError as error:
        raise StartRefused(
            f"{path / layout.LOG_STARTS} is damaged: {error}; if it is removed, records that were deleted come back"
        ) from None
    if found is None:
        log.error("checkpoint.empty", file=layout.LOG_STARTS, reason="records that were deleted may come back")
    return found or {}


def _random_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
