"""How far each group has come: committed offsets, also those of transactions that are not decided yet.

An offset committed in a transaction is *pending*: it is kept per producer until the transaction's marker comes, then
it becomes the group's offset or is forgotten.  A plain commit and a transactional one may cross each other; the one
that stands later in the log wins, which is why each offset knows the place of its own record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from struct import Struct

from broker_lite.coordinator.decision import Record
from broker_lite.coordinator.groups.catalogue import Catalogue
from broker_lite.coordinator.schemas import OffsetCommitKey, OffsetCommitValue, key_bytes, tombstone, value_bytes
from broker_lite.ids import NO_TOPIC_ID, TopicId
from broker_lite.shapes import dataclass


@dataclass(slots=True)
class Committed:
    """One offset of one group, as it was committed."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = -1
    """Set by clients of long ago who named a retention time of their own."""
    topic_id: bytes = NO_TOPIC_ID
    at: int = -1
    """The offset of the record in `__consumer_offsets`."""

    @classmethod
    def of(cls, value: OffsetCommitValue) -> Committed:
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )

    def is_of(self, topic_id: bytes) -> bool:
        """A topic that was deleted and made again has the same name and another id."""
        return topic_id == self.topic_id or NO_TOPIC_ID in (topic_id, self.topic_id)


NOTHING = Committed(-1, -1, "", -1)
"""What a group that never committed is told: no offset, and no error."""

ByTopic = dict[str, dict[int, Committed]]


BARE = Struct(">hqiBq3s16s")
"""A value of version 4 without a note, as nearly all are: all of its fields have a fixed place."""
BARE_TAGS = b"\x01\x00\x10"
"""One tagged field, the topic id, sixteen bytes."""


def _key(group: str, topic: str, partition: int) -> tuple[OffsetCommitKey, bytes]:
    """The key of an offset and its bytes."""
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    return key, key_bytes(key)


_cached_key = lru_cache(maxsize=4096)(_key)
"""Whoever commits once does so again and again."""
_LONGEST_CACHED_GROUP = 256
"""Characters: a client may invent names of 32 KB."""


def commit_record(group: str, topic: str, partition: int, committed: Committed) -> Record:
    """It speaks of `committed` itself, which `apply` keeps."""
    key_of = _cached_key if len(group) <= _LONGEST_CACHED_GROUP else _key
    key, written = key_of(group, topic, partition)
    offset, epoch, at_ms, topic_id = committed.offset, committed.leader_epoch, committed.commit_ms, committed.topic_id
    if not committed.metadata and committed.expire_ms == -1 and topic_id != NO_TOPIC_ID:
        return Record(written, BARE.pack(4, offset, epoch, 1, at_ms, BARE_TAGS, topic_id), (key, committed))
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=epoch,
        metadata=committed.metadata,
        commit_timestamp=at_ms,
        expire_timestamp=committed.expire_ms,
        topic_id=topic_id,
    )
    version = 3 if topic_id == NO_TOPIC_ID else 4
    if committed.expire_ms != -1:
        version = 1  # the only one that can say when it ends
    return Record(written, value_bytes(value, version), (key, committed))


def deletion(group: str, topic: str, partition: int) -> Record:
    return tombstone(OffsetCommitKey(group=group, topic=topic, partition=partition))


class Offsets:
    def __init__(self) -> None:
        self._groups: dict[str, ByTopic] = {}
        self._pending: dict[int, dict[str, ByTopic]] = {}
        """Producer id -> group -> what its open transaction would commit."""
        self._open: dict[str, set[int]] = {}
        """Group -> the producers with pending offsets in it."""

    def of(self, group: str) -> ByTopic:
        return self._groups.get(group, {})

    def get(self, group: str, topic: str, partition: int) -> Committed | None:
        topics = self._groups.get(group)
        if topics is None:
            return None
        partitions = topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        """Whether an open transaction may still change this offset."""
        return any(
            partition in self._pending.get(producer, {}).get(group, {}).get(topic, {})
            for producer in self._open.get(group, ())
        )

    def has_open_transaction(self, group: str) -> bool:
        return group in self._open

    # Changes, only from records

    def partitions(self, group: str, topic: str) -> dict[int, Committed]:
        """Where the offsets of a topic go, for whoever has many of them. It is there from now on, so put one in."""
        return self._groups.setdefault(group, {}).setdefault(topic, {})

    def apply(self, key: OffsetCommitKey, committed: Committed | None, *, at: int, producer_id: int) -> None:
        if committed is None:
            _discard(self._groups, key)
            for producer in list(self._open.get(key.group, ())):
                pending = self._pending.get(producer, {})
                _discard(pending, key)
                if key.group not in pending:
                    self._close(key.group, producer)
            return
        committed.at = at
        if producer_id < 0:
            self._groups.setdefault(key.group, {}).setdefault(key.topic, {})[key.partition] = committed
        else:
            pending = self._pending.setdefault(producer_id, {})
            pending.setdefault(key.group, {}).setdefault(key.topic, {})[key.partition] = committed
            self._open.setdefault(key.group, set()).add(producer_id)

    def _close(self, group: str, producer_id: int) -> None:
        """The producer has nothing pending in the group any more."""
        producers = self._open.get(group, set())
        producers.discard(producer_id)
        if not producers:
            self._open.pop(group, None)

    def apply_marker(self, producer_id: int, *, commit: bool) -> None:
        """The transaction is decided. Without pending offsets of that producer this changes nothing."""
        for group, topics in self._pending.pop(producer_id, {}).items():
            self._close(group, producer_id)
            if not commit:
                continue
            for topic, partitions in topics.items():
                for partition, committed in partitions.items():
                    before = self.get(group, topic, partition)
                    if before is None or committed.at > before.at:
                        self._groups.setdefault(group, {}).setdefault(topic, {})[partition] = committed

    # Records that take offsets back

    def deletions_of_group(self, group: str) -> list[Record]:
        places = {(topic, partition) for topic, partition in _places(self.of(group))}
        for producer in self._open.get(group, ()):
            places.update(_places(self._pending.get(producer, {}).get(group, {})))
        return [deletion(group, topic, partition) for topic, partition in sorted(places)]

    def deletions_of_topic(self, topic: str, is_kept: Callable[[bytes], bool]) -> list[Record]:
        """Of a topic that is gone. Another one may have its name by now, and keeps its offsets."""
        gone: set[tuple[str, int]] = set()
        kept: set[tuple[str, int]] = set()
        for groups in (self._groups, *self._pending.values()):
            for group, topics in groups.items():
                for partition, committed in topics.get(topic, {}).items():
                    (kept if is_kept(committed.topic_id) else gone).add((group, partition))
        return [deletion(group, topic, partition) for group, partition in sorted(gone - kept)]

    def topics_with_gone_ids(self, catalogue: Catalogue) -> set[str]:
        """Topics whose offsets tell of an id that no topic has any more: their deletion was not written down here."""
        known: dict[bytes, bool] = {}
        topics: set[str] = set()
        for groups in (self._groups, *self._pending.values()):
            for by_topic in groups.values():
                for topic, partitions in by_topic.items():
                    for committed in partitions.values():
                        topic_id = committed.topic_id
                        if topic_id not in known:
                            known[topic_id] = is_known(topic_id, catalogue)
                        if not known[topic_id]:
                            topics.add(topic)
        return topics

    def expired(
        self,
        group: str,
        ages_from: Callable[[int], int | None],
        reads: Callable[[str], bool],
        *,
        now_ms: int,
        retention_ms: int,
    ) -> tuple[list[Record], bool]:
        """The deletions that are due, and whether none of the group's offsets is left then."""
        deletions: list[Record] = []
        is_all = not self.has_open_transaction(group)
        for topic, partitions in self.of(group).items():
            for partition, committed in partitions.items():
                if committed.expire_ms != -1:
                    is_over = now_ms >= committed.expire_ms and ages_from(committed.commit_ms) is not None
                else:
                    since = ages_from(committed.commit_ms)
                    is_over = since is not None and now_ms - since >= retention_ms
                if is_over and not reads(topic) and not self.is_pending(group, topic, partition):
                    deletions.append(deletion(group, topic, partition))
                else:
                    is_all = False
        return deletions, is_all


def is_known(topic_id: bytes, catalogue: Catalogue) -> bool:
    """False: the topic with this id was deleted."""
    return topic_id == NO_TOPIC_ID or catalogue.by_id(TopicId(topic_id)) is not None


def _places(topics: ByTopic) -> Iterator[tuple[str, int]]:
    return ((topic, partition) for topic, partitions in topics.items() for partition in partitions)


def _discard(groups: dict[str, ByTopic], key: OffsetCommitKey) -> None:
    topics = groups.get(key.group)
    partitions = None if topics is None else topics.get(key.topic)
    if topics is None or partitions is None:
        return
    partitions.pop(key.partition, None)
    if not partitions:
        del topics[key.topic]
    if not topics:
        del groups[key.group]
