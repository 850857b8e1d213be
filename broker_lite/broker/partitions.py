"""Partitions and their folders: what a topic's configuration means for a partition, opening and removing them."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from itertools import islice
from pathlib import Path

from broker_lite.broker.data_folder import DataFolder
from broker_lite.broker.recovery import RecoveryNews
from broker_lite.clock import Clock
from broker_lite.config import broker as keys
from broker_lite.config import topic as topic_keys
from broker_lite.config.sources import Settings, TopicSettings
from broker_lite.config.start import Durability
from broker_lite.errors import StorageFailed
from broker_lite.ids import Offset, TopicId, TopicPartition
from broker_lite.log import checkpoints, layout
from broker_lite.log.log import LogSettings
from broker_lite.log.settings import Cleanup
from broker_lite.partition.partition import Partition, PartitionSettings
from broker_lite.records.check import AppendRules
from broker_lite.records.compression import Codec

_CODECS = {"uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
_LEVELS = {
    Codec.GZIP: topic_keys.COMPRESSION_GZIP_LEVEL,
    Codec.LZ4: topic_keys.COMPRESSION_LZ4_LEVEL,
    Codec.ZSTD: topic_keys.COMPRESSION_ZSTD_LEVEL,
}


def partition_settings(topic: TopicSettings, broker: Settings, durability: Durability) -> PartitionSettings:
    get = topic.get
    codec = _CODECS.get(get(topic_keys.COMPRESSION_TYPE))
    level = None if codec is None else _LEVELS.get(codec)
    for_tests = get(topic_keys.INTERNAL_SEGMENT_BYTES)
    return PartitionSettings(
        rules=AppendRules(
            max_message_bytes=get(topic_keys.MAX_MESSAGE_BYTES),
            compacted="compact" in get(topic_keys.CLEANUP_POLICY),
            log_append_time=get(topic_keys.MESSAGE_TIMESTAMP_TYPE) == "LogAppendTime",
            before_max_ms=get(topic_keys.MESSAGE_TIMESTAMP_BEFORE_MAX_MS),
            after_max_ms=get(topic_keys.MESSAGE_TIMESTAMP_AFTER_MAX_MS),
            compression=codec,
            compression_level=None if level is None else get(level),
            strict=get(topic_keys.STRICT),
        ),
        log=LogSettings(
            segment_bytes=get(topic_keys.SEGMENT_BYTES) if for_tests is None else for_tests,
            segment_ms=get(topic_keys.SEGMENT_MS),
            segment_jitter_ms=get(topic_keys.SEGMENT_JITTER_MS),
            index_interval_bytes=get(topic_keys.INDEX_INTERVAL_BYTES),
            index_max_bytes=get(topic_keys.SEGMENT_INDEX_BYTES),
            cut_damage=broker.get(keys.RECOVER) == "kafka",
            cleanup=Cleanup(
                delete="delete" in get(topic_keys.CLEANUP_POLICY),
                compact="compact" in get(topic_keys.CLEANUP_POLICY),
                retention_ms=get(topic_keys.RETENTION_MS),
                retention_bytes=get(topic_keys.RETENTION_BYTES),
                file_delete_delay_ms=get(topic_keys.FILE_DELETE_DELAY_MS),
                delete_retention_ms=get(topic_keys.DELETE_RETENTION_MS),
                min_dirty_ratio=get(topic_keys.MIN_CLEANABLE_DIRTY_RATIO),
                min_lag_ms=get(topic_keys.MIN_COMPACTION_LAG_MS),
                max_lag_ms=get(topic_keys.MAX_COMPACTION_LAG_MS),
            ),
        ),
        producer_expiration_ms=broker.get(keys.PRODUCER_ID_EXPIRATION_MS),
        producer_expiration_check_ms=broker.get(keys.PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS),
        hold_high_until_synced=durability is Durability.FSYNC,
    )


class Partitions:
    """Opens and removes the folders of partitions. A folder that belongs to another topic id is never taken over."""

    def __init__(self, folder: DataFolder, settings: Settings, durability: Durability, clock: Clock) -> None:
        self._folder = folder
        self._settings = settings
        self._durability = durability
        self._clock = clock
        self._retired: deque[Path] = deque()
        """Folders to be removed."""
        self._in_the_way: dict[Path, Path] = {}
        """Those that still have their old name, and the name they are to get."""
        self._news = RecoveryNews(folder.disk, clock)
        self._cleaned = checkpoints.read_offsets(folder.disk, folder.path / layout.CLEANED_UP_TO)

    def settings_for(self, topic: TopicSettings) -> PartitionSettings:
        return partition_settings(topic, self._settings, self._durability)

    def present(self) -> set[str]:
        return set(self._folder.disk.list(self._folder.path))

    def open(self, tp: TopicPartition, topic_id: TopicId, settings: PartitionSettings) -> Partition:
        folder = self._folder
        if folder.path / str(tp) in self._in_the_way:
            self._make_way(folder.path / str(tp))
        point = folder.recovery_points.get(tp)
        if point is not None and self._cleaned.get(tp, 0) > point:
            # Kafka compacts behind its recovery point, too; then a missing offset there is no sign of damage.
            point = None
        start = folder.log_starts.get(tp)
        high = folder.high_watermarks.get(tp)
        if not folder.was_clean:
            self._news.before(tp, folder.path / str(tp), point)
        partition = Partition.open(
            tp,
            topic_id,
            folder.path / str(tp),
            folder.disk,
            settings,
            clean=folder.was_clean,
            recovery_point=None if point is None else Offset(point),
            log_start=None if start is None else Offset(start),
            high_watermark=None if high is None else Offset(high),
            now_ms=self._clock.now_ms(),
            make=False,
        )
        self._news.after(tp, partition.log)
        return partition

    def retire(self, tp: TopicPartition, topic_id: TopicId, partition: Partition | None) -> None:
        """The folder will get the name that Kafka gives to one that is to be deleted, unless a younger topic has it."""
        folder = self._folder
        path, away = folder.path / str(tp), folder.path / layout.deleted_folder_name(tp, topic_id)
        if partition is not None:
            partition.delete()
        if partition is not None and not partition.log.missing:
            self._in_the_way[path] = away
        elif folder.disk.exists(away):  # the last run came no further, and what has the name now is a younger topic's
            self._retired.append(away)
        elif self._is_of(path, topic_id):
            self._in_the_way[path] = away
        for offsets in (folder.recovery_points, folder.log_starts, folder.high_watermarks):
            offsets.pop(tp, None)

    def _is_of(self, path: Path, topic_id: TopicId) -> bool:
        """Whether there is a folder, and no other topic's. One whose making the disk refused may have no name in it."""
        disk = self._folder.disk
        return disk.exists(path) and checkpoints.read_partition_metadata(disk, path) in (topic_id, None)

    def move_away(self, at_most: int) -> bool:
        """Not for a thread: between a look and a rename the folder must not become another topic's."""
        for path in list(islice(self._in_the_way, at_most)):
            self._make_way(path)
        return not self._in_the_way

    def _make_way(self, path: Path) -> None:
        try:
            with suppress(FileNotFoundError):
                self._folder.disk.rename(path, self._in_the_way[path])
        except OSError as error:
            raise StorageFailed(f"{path.name} of a deleted topic cannot be moved out of the way: {error}") from error
        self._retired.append(self._in_the_way.pop(path))

    def clear_away(self, at_most: int) -> bool:
        """StorageFailed if something cannot be removed; it can be tried again."""
        disk = self._folder.disk
        try:
            for _ in range(min(at_most, len(self._retired))):
                with suppress(FileNotFoundError):
                    disk.remove_tree(self._retired[0])
                self._retired.popleft()
            if self._retired:
                return False
            if self._durability is Durability.FSYNC:
                disk.sync_dir(self._folder.path)  # a folder that came back would be taken for a topic
        except OSError as error:
            raise StorageFailed(f"a deleted partition cannot be removed: {error}") from error
        return True
