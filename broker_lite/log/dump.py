"""What lies in the files of a log, in words. Reads only, believes nothing, and goes on after what it cannot read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from broker_lite.errors import BrokerError
from broker_lite.ids import format_topic_id
from broker_lite.log import layout
from broker_lite.log.disk import Disk, RealDisk
from broker_lite.log.scan import Damaged, is_intact, whole
from broker_lite.records.batch import MAGIC, Batch
from broker_lite.records.control import read_marker

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "codec 5", "codec 6", "codec 7")
_BY_NAME = (
    layout.LEADER_EPOCHS,
    layout.PARTITION_METADATA,
    layout.RECOVERY_POINTS,
    layout.LOG_STARTS,
    layout.HIGH_WATERMARKS,
    layout.CLEANED_UP_TO,
    layout.META_PROPERTIES,
    layout.CLEAN_SHUTDOWN,
)


class Dump:
    """`faults` counts what could not be told of all that was asked for."""

    def __init__(self, disk: Disk | None = None) -> None:
        self._disk = disk or RealDisk()
        self.faults = 0

    def lines(self, path: Path) -> Iterator[str]:
        """One file, or every known file of a folder and of the partitions in it. OSError if `path` is neither."""
        try:
            names = sorted(self._disk.list(path))
        except NotADirectoryError:
            yield from self._file(path)
            return
        files = self._disk.sizes(path)
        known = 0
        for name in names:
            if name in files and (name in _BY_NAME or layout.parse_file_name(name)):
                yield from self._file(path / name)
            elif name not in files and layout.parse_folder_name(name):
                yield from self.lines(path / name)
            else:
                continue
            known += 1
        if not known and not layout.parse_folder_name(path.name):
            yield f"{path}"
            yield self._fault("no file of a log that this program knows")

    def _file(self, path: Path) -> Iterator[str]:
        known = layout.parse_file_name(path.name)
        base, suffix = known or (0, path.name)
        yield f"{path}"
        if suffix == layout.LOG:
            yield from self._batches(path)
            return
        lines = _LINES.get(suffix)
        if lines is None:
            yield self._fault("not a file of a log that this program knows")
            return
        try:
            found = lines(self._disk.read_bytes(path), base)
        except ValueError as error:
            yield self._fault(f"unreadable: {error}")
            return
        yield from (f"  {line}" for line in found or ["empty"])

    def _batches(self, path: Path) -> Iterator[str]:
        file = self._disk.open_read(path)
        position = 0
        try:
            for step, body in whole(file, 0, file.size):
                position = step.position + step.size
                if step.magic == MAGIC:
                    line = _batch(Batch.at(body))
                else:
                    line = f"message at {step.last}, magic {step.magic}, {step.size} bytes, {when(step.max_timestamp)}"
                line = f"byte {step.position}: {line}"
                yield f"  {line}" if is_intact(step, body) else self._fault(f"{line}, CHECKSUM WRONG")
        except Damaged as error:
            yield self._fault(f"damaged {error}; {file.size - position} bytes follow")
        finally:
            file.close()

    def _fault(self, line: str) -> str:
        self.faults += 1
        return f"  {line}"


def _batch(batch: Batch) -> str:
    words = [
        f"offsets {batch.base_offset} to {batch.last_offset}",
        f"{batch.count} records" if batch.count != 1 else "1 record",
        f"{batch.size} bytes",
        _CODECS[batch.codec],
        f"epoch {batch.leader_epoch}",
        f"{'append' if batch.is_log_append_time else 'create'} time to {when(batch.max_timestamp)}",
    ]
    if batch.has_producer:
        words.append(f"producer {batch.producer_id} epoch {batch.producer_epoch}")
        if batch.base_sequence >= 0:
            words.append(f"sequences {batch.base_sequence} to {batch.last_sequence}")
    if batch.is_control:
        words.append(_marker(batch))
    elif batch.is_transactional:
        words.append("transactional")
    if batch.has_delete_horizon:
        words.append(f"delete horizon {when(batch.base_timestamp)}")
    return ", ".join(words)


def _marker(batch: Batch) -> str:
    try:
        marker = read_marker(batch)
    except BrokerError as error:
        return f"unreadable control batch: {error.message}"
    if marker is None:
        return "control batch of an unknown kind"
    return f"{'COMMIT' if marker.commit else 'ABORT'} by coordinator epoch {marker.coordinator_epoch}"


def when(timestamp: int) -> str:
    """Milliseconds since 1970 as people write a time; -1 is none."""
    if timestamp < 0:
        return "no time"
    try:
        moment = datetime.fromtimestamp(timestamp / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp % 1000:03d}"


def _index(data: bytes, base: int) -> list[str]:
    offsets, positions = layout.parse_index(data)
    return [f"offset {base + offset} at byte {position}" for offset, position in zip(offsets, positions, strict=True)]


def _time_index(data: bytes, base: int) -> list[str]:
    times, offsets = layout.parse_time_index(data)
    return [f"{when(time)} reached at offset {base + offset}" for time, offset in zip(times, offsets, strict=True)]


def _aborted(data: bytes, base: int) -> list[str]:
    return [
        f"producer {one.producer_id} aborted {one.first_offset} to {one.last_offset},"
        f" last stable offset {one.last_stable_offset}"
        for one in layout.parse_aborted(data)
    ]


def _snapshot(data: bytes, base: int) -> list[str]:
    return [
        f"producer {one.producer_id} epoch {one.producer_epoch}, last sequence {one.last_sequence}"
        f" at offset {one.last_offset} ({one.offset_delta + 1} records), {when(one.timestamp)},"
        f" coordinator epoch {one.coordinator_epoch}, "
        + (f"transaction open since {one.current_txn_first_offset}" if one.current_txn_first_offset >= 0 else "idle")
        for one in layout.parse_snapshot(data)
    ]


def _epochs(data: bytes, base: int) -> list[str]:
    return [f"epoch {epoch} from offset {start}" for epoch, start in layout.parse_epochs(data)]


def _offsets(data: bytes, base: int) -> list[str]:
    return [f"{partition}: {offset}" for partition, offset in layout.parse_offsets(data).items()]


def _metadata(data: bytes, base: int) -> list[str]:
    return [f"topic id {format_topic_id(layout.parse_partition_metadata(data))}"]


def _properties(data: bytes, base: int) -> list[str]:
    return [f"{key} = {value}" for key, value in layout.parse_properties(data).items()]


def _clean(data: bytes, base: int) -> list[str]:
    return [f"stopped cleanly, broker epoch {layout.parse_clean_shutdown(data)}"]


_LINES: dict[str, Callable[[bytes, int], list[str]]] = {
    layout.INDEX: _index,
    layout.TIME_INDEX: _time_index,
    layout.TXN_INDEX: _aborted,
    layout.SNAPSHOT: _snapshot,
    layout.LEADER_EPOCHS: _epochs,
    layout.PARTITION_METADATA: _metadata,
    layout.RECOVERY_POINTS: _offsets,
    layout.LOG_STARTS: _offsets,
    layout.HIGH_WATERMARKS: _offsets,
    layout.CLEANED_UP_TO: _offsets,
    layout.META_PROPERTIES: _properties,
    layout.CLEAN_SHUTDOWN: _clean,
}
