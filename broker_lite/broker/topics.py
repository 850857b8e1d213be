"""The catalogue of topics: which there are, what they are configured to, and their partitions.

Every change is decided here, journalled, then applied; a restart applies the journal again.  All that one request
changes is one entry of the journal.  Folders follow the journal: a partition's folder is made when the first batch is
written to it, until then there is nothing but the journal's word, and a deleted topic stays in the journal as `deleted`
until its last folder is gone, so that a crash in the middle of a deletion leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from broker_lite.broker.journal import Change, Json
from broker_lite.config.sources import Settings, TopicSettings, topic_config
from broker_lite.errors import (
    InvalidPartitions,
    InvalidRequest,
    InvalidTopic,
    StorageFailed,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from broker_lite.ids import (
    INTERNAL_TOPICS,
    KRAFT_TOPIC,
    TopicId,
    TopicPartition,
    check_topic_name,
    format_topic_id,
    new_topic_id,
    parse_topic_id,
)
from broker_lite.logs import get_logger
from broker_lite.partition.partition import Partition, PartitionSettings
from broker_lite.shapes import dataclass

log = get_logger(__name__)

TOPIC = "topic"
DELETED = "deleted"
TOPIC_FIELDS = {"id": str, "partitions": int, "configs": dict}
DELETED_FIELDS = {"name": str, "partitions": int}
_MOST_ALIKE = 1000
A_FEW = 100
"""Folders that are removed at a time."""


@dataclass(slots=True)
class Topic:
    name: str
    id: TopicId
    partition_count: int
    configs: dict[str, str]
    """What was set for this topic; everything else comes from the broker."""
    settings: TopicSettings
    journalled_to: int = 0
    """The end of the journal when the topic, or its youngest partition, was written to it."""

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, index) for index in range(self.partition_count)]


@dataclass(slots=True, frozen=True)
class NewTopic:
    name: str
    partitions: int
    configs: Mapping[str, str]


class Folders(Protocol):
    """Where partitions live; see `broker.partitions`."""

    def settings_for(self, topic: TopicSettings) -> PartitionSettings: ...

    def present(self) -> set[str]:
        """The names of all folders."""
        ...

    def open(self, tp: TopicPartition, topic_id: TopicId, settings: PartitionSettings) -> Partition: ...

    def retire(self, tp: TopicPartition, topic_id: TopicId, partition: Partition | None) -> None:
        """Nobody has it any more. Its folder goes with `move_away`, or when a new topic needs the name."""
        ...

    def move_away(self, at_most: int) -> bool:
        """So many folders of those get another name. True: all have. StorageFailed: the disk refuses for now."""
        ...

    def clear_away(self, at_most: int) -> bool:
        """Remove so many of those that were retired, for good. True: all are gone. A thread may do it."""
        ...


class Topics:
    def __init__(
        self,
        folders: Folders,
        write: Callable[[list[Change]], None],
        settings: Settings,
        journal_end: Callable[[], int] = lambda: 0,
    ) -> None:
        self._folders = folders
        self._write = write
        self._settings = settings
        self._journal_end = journal_end
        self._journal_lost: tuple[int, str] | None = None
        self.version = 0
        """Rises with every change, for those who keep answers."""
        self._by_name: dict[str, Topic] = {}
        self._by_folded_name: dict[str, str] = {}
        self._by_id: dict[TopicId, Topic] = {}
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._deleted: dict[TopicId, tuple[str, int]] = {}
        """Topics that are gone but whose folders may not be."""
        self.on_deleted: Callable[[], None] = self.remove_deleted
        """Told that there are folders to remove; whoever has a thread to do it in may take this over."""
        self._alike: dict[tuple[tuple[str, str], ...], PartitionSettings] = {}
        self._loading = True
        self.move_away = folders.move_away
        self.clear_away = folders.clear_away

    # ---- looking

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: TopicId) -> Topic | None:
        return self._by_id.get(topic_id)

    def is_being_deleted(self, name: str, topic_id: TopicId | None) -> bool:
        """Gone, but its folders may not be. One that has lost its id belongs to any deleted topic of that name."""
        return topic_id in self._deleted or (topic_id is None and name in (one for one, _ in self._deleted.values()))

    def partition(self, topic: str, index: int) -> Partition:
        partition = self._partitions.get((topic, index))
        if partition is not None:
            return partition
        known = self._by_name.get(topic)
        if known is None or not 0 <= index < known.partition_count:
            raise UnknownTopicOrPartition(f"there is no partition {topic[:249]}-{index}")
        # Nobody has asked for it since the start, and nothing was ever written to it.
        return self._open(known, index)

    def partition_by_id(self, topic_id: TopicId, index: int) -> Partition:
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicId(f"no topic has the id {format_topic_id(topic_id)}")
        return self.partition(topic.name, index)

    def leader_epoch(self, topic: Topic, index: int) -> int:
        partition = self._partitions.get((topic.name, index))
        return 0 if partition is None else partition.leader_epoch

    def leader_epochs(self, topic: Topic) -> tuple[int, ...]:
        """Of all its partitions."""
        get, name = self._partitions.get, topic.name
        opened = [get((name, index)) for index in range(topic.partition_count)]
        return tuple([0 if partition is None else partition.leader_epoch for partition in opened])

    def sizes(self, topic: Topic) -> Iterator[tuple[int, int]]:
        """Each partition and how many bytes it has."""
        for index in range(topic.partition_count):
            partition = self._partitions.get((topic.name, index))
            yield index, 0 if partition is None else partition.log.size_bytes

    def open_partitions(self) -> Iterable[Partition]:
        return self._partitions.values()

    # ---- deciding

    def check_new(self, name: str, partitions: int, configs: Mapping[str, str]) -> TopicSettings:
        """Would `create` accept this? Raises what it would raise, changes nothing."""
        check_topic_name(name)
        if name == KRAFT_TOPIC:  # its folder would be taken for Kafka's
            raise InvalidRequest(f"Creation of internal topic {KRAFT_TOPIC} is prohibited.")
        if name in self._by_name:
            raise TopicAlreadyExists(f"Topic '{name}' already exists.")
        twin = self._colliding(name)
        if twin is not None:
            raise InvalidTopic(f"Topic '{name}' collides with existing topic: {twin}")
        if partitions < 1:
            raise InvalidPartitions(f"the number of partitions must be larger than 0, not {partitions}")
        return topic_config(configs, self._settings)

    def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        self.check_new(name, partitions, configs)
        return self.create_all([NewTopic(name, partitions, configs)])[0]

    def create_all(self, wanted: Sequence[NewTopic]) -> list[Topic]:
        """Topics that `check_new` has accepted, no two of one name: all of them or, if the disk refuses, none."""
        self._commit([_topic_change(one.name, new_topic_id(), one.partitions, one.configs) for one in wanted])
        return [self._by_name[one.name] for one in wanted]

    def add_partitions(self, topic: Topic, total: int) -> None:
        self._commit([_topic_change(topic.name, topic.id, total, topic.configs)])

    def configure(self, topic: Topic, configs: Mapping[str, str]) -> None:
        topic_config(configs, self._settings)
        self._commit([_topic_change(topic.name, topic.id, topic.partition_count, configs)])

    def delete(self, topic: Topic) -> None:
        self.delete_all([topic])

    def delete_all(self, topics: Sequence[Topic]) -> None:
        """All of them or, if the disk refuses, none. Their folders go soon."""
        changes: list[Change] = []
        for topic in topics:
            gone: dict[str, Json] = {"name": topic.name, "partitions": topic.partition_count}
            changes += [Change(TOPIC, topic.name, None), Change(DELETED, format_topic_id(topic.id), gone)]
        self._commit(changes)
        for topic in topics:
            self._retire(topic.id, topic.name, topic.partition_count)
        self.on_deleted()

    def _commit(self, changes: list[Change]) -> None:
        self._write(changes)
        for change in changes:
            self.apply(change)

    def _colliding(self, name: str) -> str | None:
        """Kafka's metric names do not tell '.' from '_', so it refuses the second of two names that differ in these."""
        return self._by_folded_name.get(folded(name))

    # ---- applying

    def apply(self, change: Change) -> None:
        self.version += 1
        if change.kind == DELETED:
            self._apply_deleted(change)
        elif change.value is None:
            self._forget(change.name)
        else:
            self._apply_topic(change.name, change.value)

    def _apply_topic(self, name: str, value: Mapping[str, Json]) -> None:
        topic_id, partitions, configs = value["id"], value["partitions"], value["configs"]
        assert isinstance(topic_id, str)
        assert isinstance(partitions, int)
        assert isinstance(configs, dict)
        texts = {key: str(text) for key, text in configs.items()}
        topic = Topic(name, parse_topic_id(topic_id), partitions, texts, TopicSettings(texts, self._settings))
        if not self._loading:
            before = self._by_name.get(name)
            same = before is not None and (before.id, before.partition_count) == (topic.id, partitions)
            topic.journalled_to = before.journalled_to if before is not None and same else self._journal_end()
        self._by_name[name] = topic
        self._by_id[topic.id] = topic
        self._by_folded_name[folded(name)] = name
        if not self._loading:
            self._reconfigure(topic)

    def reconfigure(self) -> None:
        """The broker's settings have changed, and with them those of every topic that says nothing itself."""
        self._alike.clear()
        for topic in self:
            self._reconfigure(topic)

    def _reconfigure(self, topic: Topic) -> None:
        opened = [self._partitions[key] for key in topic.partitions() if key in self._partitions]
        if opened:
            settings = self._settings_for(topic)
            for partition in opened:
                partition.reconfigure(settings)

    def _settings_for(self, topic: Topic) -> PartitionSettings:
        """Topics that are configured alike share this, which takes longer to find out than to open a partition."""
        said = tuple(sorted(topic.configs.items()))
        found = self._alike.get(said)
        if found is None:
            if len(self._alike) >= _MOST_ALIKE:
                self._alike.clear()
            found = self._alike[said] = self._folders.settings_for(topic.settings)
        return found

    def _apply_deleted(self, change: Change) -> None:
        topic_id = parse_topic_id(change.name)
        if change.value is None:
            self._deleted.pop(topic_id, None)
        else:
            name, partitions = change.value["name"], change.value["partitions"]
            assert isinstance(name, str)
            assert isinstance(partitions, int)
            self._deleted[topic_id] = (name, partitions)

    def _forget(self, name: str) -> None:
        topic = self._by_name.pop(name, None)
        if topic is not None:
            del self._by_id[topic.id]
            del self._by_folded_name[folded(name)]

    def _retire(self, topic_id: TopicId, name: str, count: int) -> None:
        for index in range(count):
            partition = self._partitions.get((name, index))
            if partition is not None and partition.topic_id != topic_id:
                partition = None  # of a younger topic that has the name now
            elif partition is not None:
                del self._partitions[name, index]
            self._folders.retire(TopicPartition(name, index), topic_id, partition)

    def remove_deleted(self) -> None:
        """Remove the folders of deleted topics, then forget them."""
        gone = self.deleted
        try:
            while not self.move_away(A_FEW):
                pass
            while gone and not self.clear_away(A_FEW):
                pass
            self.forget_deleted(gone)
        except StorageFailed as error:
            log.error("topics.not_removed", topics=len(gone), reason=error.message)

    @property
    def deleted(self) -> list[TopicId]:
        return list(self._deleted)

    def forget_deleted(self, gone: Sequence[TopicId]) -> None:
        """The folders of these are gone for good."""
        if gone:
            self._commit([Change(DELETED, format_topic_id(topic_id), None) for topic_id in gone])

    def open_all(self) -> None:
        """After the journal was replayed: open every partition that has a folder, and finish what was being deleted."""
        self._loading = False
        for topic_id, (name, count) in self._deleted.items():
            self._retire(topic_id, name, count)
        self.remove_deleted()
        present = self._folders.present()
        for topic in self:
            for index in range(topic.partition_count):
                if str(TopicPartition(topic.name, index)) in present:
                    self._open(topic, index)

    def _open(self, topic: Topic, index: int) -> Partition:
        partition = self._folders.open(TopicPartition(topic.name, index), topic.id, self._settings_for(topic))
        self._partitions[topic.name, index] = partition
        self._refuse_if_lost(topic, partition)
        if partition.leader_epoch:
            self.version += 1
        return partition

    def journal_lost(self, synced_to: int, reason: str) -> None:
        """What the journal has from there on may be gone after a power cut, and with a topic all of its records would
        be: nothing is written to such topics any more, however safe their own files are."""
        self._journal_lost = synced_to, reason
        for (name, _), partition in self._partitions.items():
            self._refuse_if_lost(self._by_name[name], partition)

    def _refuse_if_lost(self, topic: Topic, partition: Partition) -> None:
        if self._journal_lost is not None and topic.journalled_to > self._journal_lost[0]:
            partition.go_offline(f"topic {topic.name} could not be written down: {self._journal_lost[1]}")


def folded(name: str) -> str:
    """Names that have this in common collide."""
    return name.replace(".", "_")


def _topic_change(name: str, topic_id: TopicId, partitions: int, configs: Mapping[str, str]) -> Change:
    texts: dict[str, Json] = dict(configs)
    return Change(TOPIC, name, {"id": format_topic_id(topic_id), "partitions": partitions, "configs": texts})
