"""Commits by the hundred thousand, at a start.

A line of `__consumer_offsets` is read by the codec in some seven microseconds, which is nothing for one and too long
for a million.  The two forms in which commits have been written for years (values of version 3 and 4, KIP-848 brought
the topic id) are read here field by field; whatever looks otherwise in any way is left to the codec.
"""

from __future__ import annotations

from struct import Struct

from broker_lite.coordinator.groups.classic import ClassicGroup
from broker_lite.coordinator.groups.coordinator import Groups
from broker_lite.coordinator.groups.offsets import BARE, BARE_TAGS, Committed
from broker_lite.ids import NO_TOPIC_ID

_PARTITION = Struct(">i")
_HEAD_3 = Struct(">hqih")
_HEAD_4 = Struct(">hqiB")
_TIME = Struct(">q")
_BARE_3 = Struct(">hqihq")
_LONGEST = 126
"""A note whose length fits into one byte."""


def _read_bare(value: bytes, at: int) -> Committed | None:
    """A commit without a note, as nearly all are: all of its fields have a fixed place."""
    if len(value) == _BARE_3.size:
        version, offset, leader_epoch, length, commit_ms = _BARE_3.unpack(value)
        if version == 3 and not length:
            return Committed(offset, leader_epoch, "", commit_ms, -1, NO_TOPIC_ID, at)
    elif len(value) == BARE.size:
        version, offset, leader_epoch, length, commit_ms, tag, topic_id = BARE.unpack(value)
        if version == 4 and length == 1 and tag == BARE_TAGS:
            return Committed(offset, leader_epoch, "", commit_ms, -1, topic_id, at)
    return None


class CommitLoader:
    """For one run of commits with nothing else between them."""

    def __init__(self, groups: Groups, *, now_ms: int) -> None:
        self._groups = groups
        self._now_ms = now_ms
        self._known: dict[bytes, dict[int, Committed]] = {}
        """The head of a key, which names group and topic -> where the offsets of its partitions go."""
        self._notes: dict[bytes, str] = {b"": ""}

    def load(self, key: bytes, value: bytes | None, at: int) -> bool:
        """Whether it was read here: a plain commit whose record stands at `at`."""
        if value is None:
            self._known.clear()  # it may take away what we hold on to
            return False
        committed = _read_bare(value, at) or self._read(value, at)
        if committed is None:
            return False
        partitions = self._known.get(key[:-4])
        if partitions is None:
            partitions = self._find(key)
            if partitions is None:
                return False
            self._known[key[:-4]] = partitions
        partitions[_PARTITION.unpack_from(key, len(key) - 4)[0]] = committed
        return True

    def _find(self, key: bytes) -> dict[int, Committed] | None:
        if len(key) < 10:
            return None
        topic_at = 4 + int.from_bytes(key[2:4], "big", signed=True)
        end = topic_at + 2 + int.from_bytes(key[topic_at : topic_at + 2], "big", signed=True)
        if topic_at < 4 or end < topic_at + 2 or end + 4 != len(key):
            return None
        try:
            group, topic = key[4:topic_at].decode(), key[topic_at + 2 : end].decode()
        except UnicodeDecodeError:
            return None
        if group not in self._groups.groups:
            self._groups.groups[group] = ClassicGroup(group, now_ms=self._now_ms)
        return self._groups.offsets.partitions(group, topic)

    def _read(self, value: bytes, at: int) -> Committed | None:
        size = len(value)
        if size < _HEAD_3.size + _TIME.size:
            return None
        topic_id: bytes = NO_TOPIC_ID
        if value[1] == 3:
            version, offset, leader_epoch, length = _HEAD_3.unpack_from(value)
            pos = _HEAD_3.size
            if version != 3 or length < 0 or size != pos + length + _TIME.size:
                return None
        else:
            version, offset, leader_epoch, length = _HEAD_4.unpack_from(value)
            pos, length = _HEAD_4.size, length - 1
            tags = pos + length + _TIME.size
            if version != 4 or not 0 <= length < _LONGEST or value[tags : tags + 3] != BARE_TAGS or size != tags + 19:
                return None
            topic_id = value[tags + 3 :]
        note = self._note(value[pos : pos + length])
        if note is None:
            return None
        return Committed(offset, leader_epoch, note, _TIME.unpack_from(value, pos + length)[0], -1, topic_id, at)

    def _note(self, data: bytes) -> str | None:
        found = self._notes.get(data)
        if found is None:
            try:
                found = data.decode()
            except UnicodeDecodeError:
                return None
            if len(self._notes) < 10_000:
                self._notes[data] = found
        return found
