"""Taking over partition folders that are in nobody's journal: a data folder that Apache Kafka wrote.

What a topic is called and how many partitions it has, the folders say; its id lies in `partition.metadata`.  How it was
configured lies in Kafka's controller log, which is not read.  So an adopted topic is told to keep everything
(`retention.ms` and `retention.bytes` of -1, nothing compacted), where everybody can see it, until somebody sets what is
meant.  The coordinators' topics are configured as ours are, with as many partitions as there are folders: the number
decides in which one a group is found.

Producer ids must never be given out twice, so the next one lies above every id in a snapshot or in the header of a
batch, and above the block that Kafka may have been giving out when it was stopped.  Clients choose what they write: an
id that no broker can have counted up to is passed over.

All of it is one decision in the journal: after a crash it has been taken whole, or is taken again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from broker_lite.broker.journal import Change, Json
from broker_lite.broker.producer_ids import KIND as PRODUCER_IDS
from broker_lite.broker.producer_ids import MAX_FOREIGN
from broker_lite.broker.topics import TOPIC, Topics
from broker_lite.errors import BrokerError, StartRefused
from broker_lite.ids import INTERNAL_TOPICS, TopicId, TopicPartition, check_topic_name, format_topic_id, new_topic_id
from broker_lite.log import checkpoints, layout
from broker_lite.log.disk import Disk
from broker_lite.log.scan import Damaged, steps
from broker_lite.logs import get_logger
from broker_lite.records.batch import MAGIC

log = get_logger(__name__)

KEEP_EVERYTHING = {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "-1"}
KAFKA_BLOCK = 1000
"""Producer ids that a broker of Kafka takes at once, and forgets when it stops."""
MOST_PARTITIONS = 100_000
_PRODUCER_ID_AT = 43
_PRODUCER_ID = struct.Struct(">q")


def adopt(
    root: Path,
    disk: Disk,
    topics: Topics,
    configs_of_internal: Callable[[str], dict[str, str]],
) -> list[Change]:
    """The changes that make the folders in `root` which belong to no topic belong to one; none if there are none.

    StartRefused if the partitions of a topic contradict each other.
    """
    found = _strangers(root, disk, topics)
    changes: list[Change] = []
    highest = -1
    for name in sorted(found):
        topic_id, indexes = found[name]
        missing = max(indexes) + 1 - len(indexes)
        log.info("topic.adopted", topic=name, partitions=max(indexes) + 1, missing=missing)
        configs: dict[str, Json] = {**(configs_of_internal(name) if name in INTERNAL_TOPICS else KEEP_EVERYTHING)}
        value: dict[str, Json] = {
            "id": format_topic_id(topic_id),
            "partitions": max(indexes) + 1,
            "configs": configs,
        }
        changes.append(Change(TOPIC, name, value))
        for index in indexes:
            highest = max(highest, _highest_in(disk, root / str(TopicPartition(name, index))))
    if changes:
        changes.append(Change(PRODUCER_IDS, "next", {"end": highest + 1 + KAFKA_BLOCK}))
    return changes


def _strangers(root: Path, disk: Disk, topics: Topics) -> dict[str, tuple[TopicId, set[int]]]:
    """Topics that nobody knows, by name: id and partitions."""
    found: dict[str, tuple[TopicId | None, set[int]]] = {}
    for folder in sorted(disk.list(root)):
        tp = layout.parse_folder_name(folder)
        if tp is None or topics.get(tp.topic) is not None or not _is_partition(disk, root / folder, tp):
            continue
        topic_id = checkpoints.read_partition_metadata(disk, root / folder)
        if topics.is_being_deleted(tp.topic, topic_id):
            continue
        known, indexes = found.setdefault(tp.topic, (topic_id, set()))
        if known is not None and topic_id is not None and known != topic_id:
            raise StartRefused(
                f"the folders of the topic {tp.topic} belong to two topics of that name, "
                f"{format_topic_id(known)} and {format_topic_id(topic_id)} ({folder}): remove those of the wrong one"
            )
        indexes.add(tp.partition)
        found[tp.topic] = (known or topic_id, indexes)
    return {name: (topic_id or new_topic_id(), indexes) for name, (topic_id, indexes) in found.items()}


def _is_partition(disk: Disk, path: Path, tp: TopicPartition) -> bool:
    """Not everything whose name ends with a number is one."""
    try:
        check_topic_name(tp.topic)
        names = disk.list(path)
    except (BrokerError, OSError):
        return False
    return tp.partition < MOST_PARTITIONS and any(
        name == layout.PARTITION_METADATA or (name.endswith(layout.LOG) and layout.parse_file_name(name))
        for name in names
    )


def highest_producer_id(root: Path, disk: Disk) -> int:
    """Of all partitions in a data folder, as far as their ids are plausible; -1 if there is none."""
    names = [(name, layout.parse_folder_name(name)) for name in disk.list(root)]
    found = [root / name for name, tp in names if tp is not None and _is_partition(disk, root / name, tp)]
    return max((_highest_in(disk, folder) for folder in found), default=-1)


def _highest_in(disk: Disk, folder: Path) -> int:
    return max((seen for seen in producer_ids(disk, folder) if seen < MAX_FOREIGN), default=-1)


def producer_ids(disk: Disk, folder: Path) -> Iterator[int]:
    """Every id in the snapshots and batch headers of a partition, as far as they can be read."""
    sizes = disk.sizes(folder)
    for name, size in sizes.items():
        file_name = layout.parse_file_name(name)
        if file_name is None:
            continue
        if file_name[1] == layout.SNAPSHOT:
            try:
                yield from (entry.producer_id for entry in layout.parse_snapshot(disk.read_bytes(folder / name)))
            except ValueError:
                continue
        elif file_name[1] == layout.LOG and size:
            file = disk.open_read(folder / name)
            try:
                for step in steps(file, 0, size):
                    if step.magic == MAGIC:
                        yield _PRODUCER_ID.unpack(file.pread(step.position + _PRODUCER_ID_AT, _PRODUCER_ID.size))[0]
            except Damaged:
                continue
            finally:
                file.close()
