"""CreateTopics, DeleteTopics, CreatePartitions, DescribeTopicPartitions, DescribeCluster: one story each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from broker_lite.config.start import Durability
from broker_lite.errors import ErrorCode
from broker_lite.wire.messages.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from broker_lite.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from broker_lite.wire.messages.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from broker_lite.wire.messages.k60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from broker_lite.wire.messages.k75_describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.support.talk import Talk, talking


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path) as talk:
        yield talk


def topic(
    name: str = "t",
    partitions: int = 1,
    replicas: int = 1,
    configs: dict[str, str | None] | None = None,
    assigned: dict[int, list[int]] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in (assigned or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


async def create(
    talk: Talk, *topics: CreatableTopic, version: int = 7, validate_only: bool = False, timeout_ms: int = 1000
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only, timeout_ms=timeout_ms)
    return (await talk.ask(request, version, CreateTopicsResponse)).topics


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_topic_is_created(talk: Talk, version: int) -> None:
    (result,) = await create(talk, topic(partitions=3), version=version)
    made = talk.broker.topics.get("t")
    assert result.error_code == 0
    assert made is not None
    assert made.partition_count == 3
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        configs = {config.name: (config.value, config.config_source) for config in result.configs or []}
        assert configs["retention.ms"] == ("604800000", 5)
    if version >= 7:
        assert result.topic_id == made.id


async def test_minus_one_means_the_brokers_default(talk: Talk) -> None:
    (result,) = await create(talk, topic(partitions=-1, replicas=-1))
    assert (result.error_code, result.num_partitions) == (0, 1)


async def test_configs_are_kept_and_told(talk: Talk) -> None:
    (result,) = await create(talk, topic(configs={"cleanup.policy": "compact", "segment.bytes": "1000"}))
    told = {config.name: (config.value, config.config_source) for config in result.configs or []}
    assert told["cleanup.policy"] == ("compact", 1)
    assert talk.broker.topics.partition("t", 0).settings.rules.compacted
    assert talk.broker.topics.partition("t", 0).settings.log.segment_bytes == 1000


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(partitions=0), ErrorCode.INVALID_PARTITIONS),
        (topic(partitions=-2), ErrorCode.INVALID_PARTITIONS),
        (topic(replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(replicas=3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(configs={"no.such.key": "1"}), ErrorCode.INVALID_CONFIG),
        (topic(configs={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (topic(configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (topic(partitions=10_001), ErrorCode.POLICY_VIOLATION),
        (topic(assigned={0: [1]}), ErrorCode.INVALID_REQUEST),
        (topic(partitions=-1, replicas=-1, assigned={0: [2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(partitions=-1, replicas=-1, assigned={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(partitions=-1, replicas=-1, assigned={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(partitions=-1, replicas=-1, assigned={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_what_cannot_be_created_is_refused_with_a_reason_and_the_good_one_beside_it_is_made(
    talk: Talk, asked: CreatableTopic, code: ErrorCode
) -> None:
    bad, good = await create(talk, asked, topic("good"))
    assert bad.error_code == code
    assert bad.error_message
    assert good.error_code == 0
    assert [made.name for made in talk.broker.topics] == ["good"]


async def test_a_topic_can_be_assigned_by_hand(talk: Talk) -> None:
    (result,) = await create(talk, topic(partitions=-1, replicas=-1, assigned={0: [1], 1: [1]}))
    assert (result.error_code, result.num_partitions) == (0, 2)


async def test_existing_twice_named_and_colliding_topics(talk: Talk) -> None:
    await create(talk, topic("a.b"))
    (again,) = await create(talk, topic("a.b"))
    assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    (twin,) = await create(talk, topic("a_b"))
    assert twin.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    (twice,) = await create(talk, topic("x"), topic("x"))
    assert twice.error_code == ErrorCode.INVALID_REQUEST


async def test_validating_changes_nothing_and_a_time_out_of_zero_does_nothing(talk: Talk) -> None:
    (valid,) = await create(talk, topic(), validate_only=True)
    assert valid.error_code == 0
    (late,) = await create(talk, topic(), timeout_ms=0)
    assert late.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert len(talk.broker.topics) == 0


@pytest.mark.parametrize("version", range(1, 6))
async def test_topics_are_deleted_by_name(talk: Talk, version: int) -> None:
    await create(talk, topic("a"), topic("b"))
    request = DeleteTopicsRequest(topic_names=["a", "nope"], timeout_ms=1000)
    response = await talk.ask(request, version, DeleteTopicsResponse)
    assert [(result.name, result.error_code) for result in response.responses] == [
        ("a", 0),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert [made.name for made in talk.broker.topics] == ["b"]


async def test_topics_are_deleted_by_id_and_a_new_one_has_another(talk: Talk) -> None:
    (first,) = await create(talk, topic("a"))
    by_id = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=first.topic_id)], timeout_ms=1000)
    response = await talk.ask(by_id, 6, DeleteTopicsResponse)
    assert [(result.name, result.error_code) for result in response.responses] == [("a", 0)]
    (second,) = await create(talk, topic("a"))
    assert second.topic_id != first.topic_id
    response = await talk.ask(by_id, 6, DeleteTopicsResponse)
    assert response.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
async def test_the_topic_of_a_coordinator_is_deleted_like_any_other(talk: Talk, name: str) -> None:
    talk.broker.internal_topic(name)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name, topic_id=bytes(16))], timeout_ms=1000)
    response = await talk.ask(request, 6, DeleteTopicsResponse)
    assert [(result.name, result.error_code) for result in response.responses] == [(name, 0)]
    assert list(talk.broker.topics) == []


async def test_a_deleted_topic_leaves_nothing_behind(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        await create(talk, topic("a", partitions=2))
        await talk.produce("a", b"x")
        made = talk.broker.topics.get("a")
        assert made is not None
        talk.broker.delete_topic(made)
        await create(talk, topic("a", partitions=2))
        assert (await talk.produce("a", b"y")).base_offset == 0
        with anyio.fail_after(10):
            while talk.broker.topics.deleted:
                await anyio.lowlevel.checkpoint()
        assert [name for name in talk.broker.folder.disk.list(tmp_path) if name.startswith("a-")] == ["a-0"]


async def test_a_partition_has_a_folder_when_it_has_a_record(tmp_path: Path) -> None:
    def folders(talk: Talk) -> list[str]:
        return sorted(name for name in talk.broker.folder.disk.list(tmp_path) if name.startswith("a-"))

    async with talking(tmp_path, durability=Durability.OS) as talk:
        await create(talk, topic("a", partitions=3))
        for index in range(3):
            assert talk.broker.topics.partition("a", index).offsets.end == 0
            assert talk.broker.topics.partition("a", index).end_offset_for(0) == (0, 0)
        assert folders(talk) == []
        await talk.produce("a", b"x", partition=1)
        assert folders(talk) == ["a-1"]
    async with talking(tmp_path, durability=Durability.OS) as talk:
        assert [partition.tp.partition for partition in talk.broker.topics.open_partitions()] == [1]
        assert talk.broker.topics.partition("a", 1).leader_epoch == 0
        assert (await talk.produce("a", b"y", partition=2)).base_offset == 0
        assert folders(talk) == ["a-1", "a-2"]


async def test_topics_of_one_request_are_one_entry_in_the_journal(talk: Talk) -> None:
    before = talk.broker.journal_end
    good, bad, also = await create(talk, topic("a"), topic("b", partitions=0), topic("c"))
    assert (good.error_code, bad.error_code, also.error_code) == (0, ErrorCode.INVALID_PARTITIONS, 0)
    assert talk.broker.journal_end == before + 2
    assert {topic.name: topic.id for topic in talk.broker.topics} == {"a": good.topic_id, "c": also.topic_id}


async def test_the_name_of_kafkas_own_log_is_nobodys(talk: Talk) -> None:
    (refused,) = await create(talk, topic("__cluster_metadata"))
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert refused.error_message == "Creation of internal topic __cluster_metadata is prohibited."


async def test_two_names_of_one_request_may_not_collide(talk: Talk) -> None:
    first, second = await create(talk, topic("a.b"), topic("a_b"))
    assert (first.error_code, second.error_code) == (0, ErrorCode.INVALID_TOPIC_EXCEPTION)


async def grow(
    talk: Talk, count: int, *, name: str = "t", assigned: list[list[int]] | None = None, validate_only: bool = False
) -> CreatePartitionsTopicResult:
    assignments = None if assigned is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assigned]
    asked = CreatePartitionsTopic(name=name, count=count, assignments=assignments)
    request = CreatePartitionsRequest(topics=[asked], timeout_ms=1000, validate_only=validate_only)
    return (await talk.ask(request, 3, CreatePartitionsResponse)).results[0]


async def test_a_topic_grows_but_never_shrinks(talk: Talk) -> None:
    await create(talk, topic(partitions=2))
    await talk.produce("t", b"x", partition=1)
    assert (await grow(talk, 4, validate_only=True)).error_code == 0
    assert (await grow(talk, 3)).error_code == 0
    assert (await talk.produce("t", b"x", partition=2)).base_offset == 0
    assert (await talk.produce("t", b"x", partition=1)).base_offset == 1
    for count in (3, 2, 0, -1):
        assert (await grow(talk, count)).error_code == ErrorCode.INVALID_PARTITIONS
    assert (await grow(talk, 4, name="nope")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await grow(talk, 4, assigned=[[1], [1]])).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert (await grow(talk, 4, assigned=[[2]])).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert (await grow(talk, 4, assigned=[[1]])).error_code == 0


async def test_partitions_are_described_page_by_page(talk: Talk) -> None:
    await create(talk, topic("a", partitions=3), topic("b", partitions=2))
    seen: list[tuple[str | None, int]] = []
    request = DescribeTopicPartitionsRequest(topics=[], response_partition_limit=2)
    for _ in range(10):
        page = await talk.ask(request, 0, DescribeTopicPartitionsResponse)
        seen += [(found.name, part.partition_index) for found in page.topics for part in found.partitions]
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
        request.cursor = Cursor(topic_name=cursor.topic_name, partition_index=cursor.partition_index)
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
    elsewhere = Cursor(topic_name="a", partition_index=0)
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="b")], cursor=elsewhere)
    page = await talk.ask(request, 0, DescribeTopicPartitionsResponse)
    assert [found.error_code for found in page.topics] == [ErrorCode.INVALID_REQUEST]
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="nope"), TopicRequest(name="b")])
    page = await talk.ask(request, 0, DescribeTopicPartitionsResponse)
    assert [(found.name, found.error_code) for found in page.topics] == [
        ("b", 0),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


async def test_the_cluster_is_one_broker_which_is_its_own_controller(talk: Talk) -> None:
    for version in range(3):
        response = await talk.ask(
            DescribeClusterRequest(include_cluster_authorized_operations=False), version, DescribeClusterResponse
        )
        assert (response.cluster_id, response.controller_id) == (talk.broker.cluster_id, 1)
        assert [(node.broker_id, node.host, node.port) for node in response.brokers] == [(1, "127.0.0.1", 9092)]
    wrong = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=2)
    response = await talk.ask(wrong, 1, DescribeClusterResponse)
    assert response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert response.error_message == (
        "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
    )
