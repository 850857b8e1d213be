"""Whose a folder is, and in which leader epoch it is opened."""

from __future__ import annotations

from pathlib import Path

from broker_lite.errors import InconsistentTopicId
from broker_lite.ids import NO_TOPIC_ID, TopicId
from broker_lite.log import checkpoints
from broker_lite.log.disk import Disk
from broker_lite.log.log import Log


def next_epoch(log: Log) -> int:
    """After a clean stop nothing can be gone, so it is the same one."""
    latest = log.epochs.latest
    return latest if latest >= 0 and log.recovered.scanned_from is None else latest + 1


def claim(disk: Disk, path: Path, topic_id: TopicId, *, sync: bool) -> None:
    """The folder belongs to this topic, and says so."""
    found = checkpoints.read_partition_metadata(disk, path)
    if found is None:
        if topic_id != NO_TOPIC_ID:
            checkpoints.write_partition_metadata(disk, path, topic_id, sync=sync)
    elif found != topic_id and topic_id != NO_TOPIC_ID:
        raise InconsistentTopicId(f"the folder {path.name} belongs to another topic of that name")
