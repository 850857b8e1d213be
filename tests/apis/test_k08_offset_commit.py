"""OffsetCommit and OffsetFetch, in every version."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_lite.coordinator.groups.committing import Commit, Committer
from broker_lite.errors import ErrorCode
from broker_lite.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from broker_lite.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.support.talk import Talk, talking

Line = tuple[int, int, str | None]
"""Error, offset, metadata."""


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path) as talk:
        talk.broker.topics.create("t", 2, {})
        yield talk


def topic_id(talk: Talk, name: str) -> bytes:
    topic = talk.broker.topics.get(name)
    return b"\x01" * 16 if topic is None else topic.id


async def commit(
    talk: Talk,
    version: int,
    offset: int = 42,
    *,
    group: str = "g",
    topic: str = "t",
    partition: int = 0,
    metadata: str | None = "note",
    generation: int = -1,
    member: str = "",
) -> int:
    line = OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_leader_epoch=3, committed_metadata=metadata
    )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name=topic, topic_id=topic_id(talk, topic), partitions=[line])],
    )
    response = await talk.ask(request, version, OffsetCommitResponse)
    (answer,) = response.topics
    assert answer.name == (topic if version < 10 else "")
    assert answer.topic_id == (topic_id(talk, topic) if version >= 10 else bytes(16))
    assert answer.partitions[0].partition_index == partition
    return answer.partitions[0].error_code


async def fetch(
    talk: Talk, version: int, *partitions: int, group: str = "g", topic: str = "t", stable: bool = False
) -> list[Line]:
    if version < 8:
        old = OffsetFetchRequest(
            group_id=group,
            require_stable=stable,
            topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=list(partitions))],
        )
        response = await talk.ask(old, version, OffsetFetchResponse)
        assert response.error_code == 0
        return [(p.error_code, p.committed_offset, p.metadata) for p in response.topics[0].partitions]
    wanted = OffsetFetchRequestTopics(name=topic, topic_id=topic_id(talk, topic), partition_indexes=list(partitions))
    asked = OffsetFetchRequestGroup(group_id=group, topics=[wanted])
    request = OffsetFetchRequest(groups=[asked], require_stable=stable)
    found = (await talk.ask(request, version, OffsetFetchResponse)).groups[0]
    assert (found.group_id, found.error_code) == (group, 0)
    return [(p.error_code, p.committed_offset, p.metadata) for p in found.topics[0].partitions]


@pytest.mark.parametrize("version", range(11))
async def test_what_was_committed_is_fetched(talk: Talk, version: int) -> None:
    assert await commit(talk, version) == 0
    assert await fetch(talk, 8, 0, 1) == [(0, 42, "note"), (0, -1, "")]
    kept = talk.broker.groups.of("g").committed("g", "t", 0, stable=True, topic_id=topic_id(talk, "t"))
    assert kept.leader_epoch == (3 if version >= 6 else -1)


@pytest.mark.parametrize("version", range(1, 11))
async def test_a_group_that_never_was_is_at_minus_one_without_an_error(talk: Talk, version: int) -> None:
    assert await fetch(talk, version, 0) == [(0, -1, "")]
    assert list(talk.broker.groups) == []


async def test_topics_whose_id_nobody_knows_come_last(talk: Talk) -> None:
    ids = [b"\x01" * 16, topic_id(talk, "t"), b"\x02" * 16]
    wanted = [OffsetFetchRequestTopics(topic_id=one, partition_indexes=[0]) for one in ids]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=wanted)])
    (found,) = (await talk.ask(request, 10, OffsetFetchResponse)).groups
    assert [(line.topic_id, line.partitions[0].error_code) for line in found.topics] == [
        (ids[1], 0),
        (ids[0], ErrorCode.UNKNOWN_TOPIC_ID),
        (ids[2], ErrorCode.UNKNOWN_TOPIC_ID),
    ]


async def test_the_oldest_version_has_no_word_for_that(talk: Talk) -> None:
    assert await fetch(talk, 0, 0) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, "")]
    await commit(talk, 0)
    assert await fetch(talk, 0, 0) == [(0, 42, "note")]


@pytest.mark.parametrize("version", range(2, 11))
async def test_all_offsets_of_a_group(talk: Talk, version: int) -> None:
    await commit(talk, 8, 1, partition=0)
    await commit(talk, 8, 2, partition=1)
    if version < 8:
        old = await talk.ask(OffsetFetchRequest(group_id="g", topics=None), version, OffsetFetchResponse)
        assert [(t.name, [p.committed_offset for p in t.partitions]) for t in old.topics] == [("t", [1, 2])]
        return
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    (group,) = (await talk.ask(asked, version, OffsetFetchResponse)).groups
    (topic,) = group.topics
    assert (topic.name, topic.topic_id) == (("t", bytes(16)) if version < 10 else ("", topic_id(talk, "t")))
    assert [p.committed_offset for p in topic.partitions] == [1, 2]


async def test_many_groups_in_one_request(talk: Talk) -> None:
    await commit(talk, 8, 1, group="a")
    await commit(talk, 8, 2, group="b")
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=g, topics=None) for g in ("b", "a", "c")])
    groups = (await talk.ask(asked, 8, OffsetFetchResponse)).groups
    found = [(g.group_id, [p.committed_offset for t in g.topics for p in t.partitions]) for g in groups]
    assert found == [("b", [2]), ("a", [1]), ("c", [])]


async def test_only_partitions_that_exist_can_be_committed(talk: Talk) -> None:
    assert await commit(talk, 8, topic="missing") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await commit(talk, 10, topic="missing") == ErrorCode.UNKNOWN_TOPIC_ID
    assert await commit(talk, 8, partition=2) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await commit(talk, 8, partition=-1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list(talk.broker.groups) == []


async def test_an_unknown_topic_id_is_said_beside_each_partition(talk: Talk) -> None:
    assert await fetch(talk, 10, 0, topic="missing") == [(ErrorCode.UNKNOWN_TOPIC_ID, -1, "")]


async def test_refusals_stand_beside_each_partition(talk: Talk) -> None:
    assert await commit(talk, 9, generation=3, member="m") == ErrorCode.GROUP_ID_NOT_FOUND
    assert await commit(talk, 8, generation=3, member="m") == ErrorCode.ILLEGAL_GENERATION
    assert await commit(talk, 8, metadata="x" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE


async def test_metadata_may_be_null(talk: Talk) -> None:
    assert await commit(talk, 8, metadata=None) == 0
    assert await fetch(talk, 8, 0) == [(0, 42, "")]


async def test_who_requires_stable_offsets_is_told_of_open_transactions(talk: Talk) -> None:
    await commit(talk, 8, 1)
    talk.broker.groups.commit_in_transaction("g", Committer(), [Commit("t", 0, 9)], producer_id=7, producer_epoch=0)
    assert await fetch(talk, 7, 0, stable=True) == [(ErrorCode.UNSTABLE_OFFSET_COMMIT, -1, "")]
    assert await fetch(talk, 7, 0) == [(0, 1, "note")]
    talk.broker.groups.marker_written(talk.broker.groups.partition_of("g"), 7, commit=True)
    assert await fetch(talk, 7, 0, stable=True) == [(0, 9, "")]
