from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from broker_lite.broker.creating import A_MOMENT
from broker_lite.clock import ManualClock
from broker_lite.errors import ErrorCode
from broker_lite.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.support.talk import Talk, talking


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path) as talk:
        talk.broker.topics.create("t", 3, {})
        talk.broker.topics.create("u", 1, {})
        yield talk


async def ask(talk: Talk, *names: str, version: int = 9, create: bool = False) -> MetadataResponse:
    topics = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=create)
    return await talk.ask(request, version, MetadataResponse)


async def moment(talk: Talk) -> None:
    clock = talk.broker.clock
    assert isinstance(clock, ManualClock)
    await anyio.wait_all_tasks_blocked()
    clock.advance(A_MOMENT)
    await anyio.wait_all_tasks_blocked()


@pytest.mark.parametrize("version", range(14))
async def test_a_topic_with_its_partitions_and_their_leader(talk: Talk, version: int) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True)
    response = await talk.ask(request, version, MetadataResponse)
    assert [(node.node_id, node.host, node.port) for node in response.brokers] == [(1, "127.0.0.1", 9092)]
    (topic,) = response.topics
    assert (topic.name, topic.error_code) == ("t", 0)
    assert [(p.partition_index, p.leader_id, p.isr_nodes, p.replica_nodes) for p in topic.partitions] == [
        (index, 1, [1], [1]) for index in range(3)
    ]
    if version >= 10:
        known = talk.broker.topics.get("t")
        assert known is not None
        assert topic.topic_id == known.id


async def test_all_topics_are_null_and_in_version_0_an_empty_list(talk: Talk) -> None:
    everything = await talk.ask(MetadataRequest(topics=None), 9, MetadataResponse)
    assert {topic.name for topic in everything.topics} == {"t", "u"}
    assert {topic.name for topic in (await ask(talk, version=0, create=True)).topics} == {"t", "u"}
    assert (await ask(talk)).topics == []


async def test_the_answer_for_all_topics_is_kept_until_something_changes(talk: Talk) -> None:
    frame = talk.frame(MetadataRequest(topics=None), 12)
    first = await talk.ask_raw(frame)
    assert len(talk.broker.kept) == 1
    assert await talk.ask_raw(frame) == first
    talk.broker.topics.create("v", 3, {})
    everything = await talk.ask(MetadataRequest(topics=None), 12, MetadataResponse)
    assert {topic.name: len(topic.partitions) for topic in everything.topics}["v"] == 3
    known = talk.broker.topics.get("v")
    assert known is not None
    talk.broker.delete_topic(known)
    everything = await talk.ask(MetadataRequest(topics=None), 12, MetadataResponse)
    assert {topic.name for topic in everything.topics} == {"t", "u"}
    assert len(talk.broker.kept) == 1


async def test_a_missing_topic_is_created_if_the_client_and_the_broker_want_it(talk: Talk) -> None:
    (topic,) = (await ask(talk, "new", create=False)).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert talk.broker.topics.get("new") is None
    (topic,) = (await ask(talk, "new", create=True)).topics
    assert (topic.error_code, topic.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    await moment(talk)
    (topic,) = (await ask(talk, "new")).topics
    assert (topic.error_code, len(topic.partitions)) == (0, 1)


async def test_names_alone_do_not_fill_the_broker(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_lite.broker.creating.MOST_TOPICS", 5)
    for _ in range(2):
        await ask(talk, *(f"name-{number}" for number in range(20)), create=True)
        await moment(talk)
    assert len(talk.broker.topics) == 5
    talk.broker.topics.create("on-purpose", 1, {})


async def test_a_topic_that_is_being_made_stays_unknown_for_a_moment(talk: Talk) -> None:
    """A client that looks twice while it joins its group, and then waits for partitions to appear, sees them appear."""
    for _ in range(3):
        (topic,) = (await ask(talk, "new", create=True)).topics
        assert (topic.error_code, topic.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
        await anyio.wait_all_tasks_blocked()
    await ask(talk, "newer", create=True)
    await moment(talk)
    assert {topic.name for topic in talk.broker.topics} == {"t", "u", "new", "newer"}


async def test_a_topic_that_was_made_meanwhile_is_left_as_it_is(talk: Talk) -> None:
    await ask(talk, "new", create=True)
    made = talk.broker.topics.create("new", 7, {})
    await moment(talk)
    assert talk.broker.topics.get("new") is made


async def test_a_topic_that_was_just_deleted_is_unknown_to_whoever_asks_first(talk: Talk) -> None:
    known = talk.broker.topics.get("u")
    assert known is not None
    talk.broker.delete_topic(known)
    (topic,) = (await ask(talk, "u", version=1, create=True)).topics
    assert (topic.error_code, topic.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


@pytest.mark.parametrize("create", [False, True])
async def test_a_topic_of_a_coordinator_is_internal_before_it_is_there(talk: Talk, create: bool) -> None:
    (topic,) = (await ask(talk, "__consumer_offsets", create=create)).topics
    assert (topic.error_code, topic.is_internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)


async def test_nothing_is_created_where_auto_creation_is_off(tmp_path: Path) -> None:
    async with talking(tmp_path, settings={"auto.create.topics.enable": "false"}) as talk:
        (topic,) = (await ask(talk, "new", create=True)).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert len(talk.broker.topics) == 0


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 250])
async def test_a_name_that_no_folder_may_have_is_refused(talk: Talk, name: str) -> None:
    (topic,) = (await ask(talk, name, create=True)).topics
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert len(talk.broker.topics) == 2


@pytest.mark.parametrize("version", [10, 11])
async def test_an_id_that_comes_too_early_is_refused_under_a_name_that_can_be_written(talk: Talk, version: int) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=b"x" * 16)])
    response = await talk.ask(asked, version, MetadataResponse)
    assert [(one.name, one.error_code) for one in response.topics] == [("", ErrorCode.INVALID_REQUEST)]


async def test_topics_by_id(talk: Talk) -> None:
    known = talk.broker.topics.get("t")
    assert known is not None
    asked = [MetadataRequestTopic(name=None, topic_id=known.id), MetadataRequestTopic(name=None, topic_id=b"z" * 16)]
    response = await talk.ask(MetadataRequest(topics=asked), 12, MetadataResponse)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("t", 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


@pytest.mark.parametrize("name", ["", "u", "nothing"])
async def test_an_id_counts_and_a_name_beside_it_does_not(talk: Talk, name: str) -> None:
    known = talk.broker.topics.get("t")
    assert known is not None
    asked = [MetadataRequestTopic(name=name, topic_id=known.id), MetadataRequestTopic(name="u")]
    response = await talk.ask(MetadataRequest(topics=asked), 13, MetadataResponse)
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in response.topics] == [("t", known.id, 0)]


async def test_what_a_client_may_do_is_told_only_if_it_asks(talk: Talk) -> None:
    (topic,) = (await ask(talk, "t")).topics
    assert topic.topic_authorized_operations == -(2**31)
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in ("t", "not-yet", "not/ever")],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    response = await talk.ask(request, 8, MetadataResponse)
    assert [topic.topic_authorized_operations for topic in response.topics] == [0b110111111000] * 3
    assert response.cluster_authorized_operations == 0b1111110100000
