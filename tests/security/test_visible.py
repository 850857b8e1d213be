"""What somebody sees who may do some things: parts of requests are answered, the rest refused, nothing hidden shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_lite.config.start import Durability, TopicAtStart
from broker_lite.errors import ErrorCode
from broker_lite.security.acls import Binding, Filter, Operation, Pattern, Permission, Resource
from broker_lite.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from broker_lite.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from broker_lite.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from broker_lite.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from broker_lite.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker_lite.wire.messages.k29_describe_acls import DescribeAclsRequest, DescribeAclsResponse
from broker_lite.wire.messages.k30_create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from broker_lite.wire.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from broker_lite.wire.messages.k60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from broker_lite.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from broker_lite.wire.messages.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from tests.apis.test_k03_metadata import moment
from tests.security.test_permissions import AUTHORIZER
from tests.support.talk import Talk, bytes_of, talking

SETTINGS = {"authorizer.class.name": AUTHORIZER, "super.users": "User:root"}
TOPICS = [TopicAtStart("mine", 1), TopicAtStart("theirs", 1)]
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def allow(talk: Talk, operation: Operation, name: str = "mine", resource: Resource = Resource.TOPIC) -> None:
    binding = Binding(resource, name, Pattern.LITERAL, "User:alice", "*", operation, Permission.ALLOW)
    talk.broker.acls.add([binding])


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path, settings=SETTINGS, topics=TOPICS) as talk:
        talk.facts.principal = "User:alice"
        yield talk


async def topics_seen(talk: Talk, *names: str, **more: bool) -> dict[str | None, int]:
    asked = [MetadataRequestTopic(name=name) for name in names] or None
    response = await talk.ask(MetadataRequest(topics=asked, **more), 9, MetadataResponse)
    return {topic.name: topic.error_code for topic in response.topics}


async def test_topics_that_one_may_not_describe_are_not_there(talk: Talk) -> None:
    assert await topics_seen(talk) == {}
    allow(talk, Operation.WRITE)
    assert await topics_seen(talk) == {"mine": 0}
    assert await topics_seen(talk, "mine", "theirs", "nowhere") == {"mine": 0, "theirs": DENIED, "nowhere": DENIED}
    assert talk.broker.topics.get("nowhere") is None


async def test_a_hidden_topic_is_not_named_by_its_id(talk: Talk) -> None:
    theirs = talk.broker.topics.get("theirs")
    assert theirs is not None
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=theirs.id)])
    response = await talk.ask(asked, 12, MetadataResponse)
    assert [(one.name, one.error_code) for one in response.topics] == [(None, DENIED)]


@pytest.mark.parametrize("version", [10, 11])
async def test_a_hidden_topic_is_not_named_by_an_id_that_comes_too_early(talk: Talk, version: int) -> None:
    theirs = talk.broker.topics.get("theirs")
    assert theirs is not None
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=theirs.id)])
    response = await talk.ask(asked, version, MetadataResponse)
    assert [(one.name, one.error_code) for one in response.topics] == [("", DENIED)]


async def test_a_topic_is_told_by_its_id_to_who_leaves_the_name_empty(talk: Talk) -> None:
    """As Kafka's admin client does."""
    allow(talk, Operation.DESCRIBE)
    for topic, said in (("mine", ("mine", 0)), ("theirs", (None, DENIED))):
        known = talk.broker.topics.get(topic)
        assert known is not None
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="", topic_id=known.id)])
        response = await talk.ask(asked, 13, MetadataResponse)
        assert [(one.name, one.error_code) for one in response.topics] == [said]


async def test_a_topic_without_a_name_is_refused_by_its_name(talk: Talk) -> None:
    allow(talk, Operation.DESCRIBE, name="*")
    assert await topics_seen(talk, "", "mine") == {"": ErrorCode.INVALID_TOPIC_EXCEPTION, "mine": 0}


async def test_a_topic_named_twice_is_not_another_one_by_its_id(talk: Talk) -> None:
    """What is asked about and what is answered is the same topic, whichever of the two a handler looks at."""
    theirs = talk.broker.topics.get("theirs")
    assert theirs is not None
    allow(talk, Operation.DELETE)
    allow(talk, Operation.DESCRIBE)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="mine", topic_id=theirs.id)])
    response = await talk.ask(asked, 12, MetadataResponse)
    assert "theirs" not in [one.name for one in response.topics]
    both = DeleteTopicsRequest(topics=[DeleteTopicState(name="mine", topic_id=theirs.id)], timeout_ms=1000)
    refused = await talk.ask(both, 6, DeleteTopicsResponse)
    assert [one.error_code for one in refused.responses] == [ErrorCode.INVALID_REQUEST]
    assert talk.broker.topics.get("theirs") is theirs
    by_id = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=theirs.id)], timeout_ms=1000)
    hidden = await talk.ask(by_id, 6, DeleteTopicsResponse)
    assert [(one.name, one.error_code) for one in hidden.responses] == [(None, DENIED)]
    assert talk.broker.topics.get("theirs") is theirs


async def test_an_empty_list_of_the_first_version_still_means_all_and_a_refused_one_does_not(talk: Talk) -> None:
    allow(talk, Operation.READ)
    response = await talk.ask(MetadataRequest(topics=[]), 0, MetadataResponse)
    assert [one.name for one in response.topics] == ["mine"]
    response = await talk.ask(MetadataRequest(topics=[MetadataRequestTopic(name="theirs")]), 0, MetadataResponse)
    assert [(one.name, one.error_code) for one in response.topics] == [("theirs", DENIED)]


async def test_a_topic_is_made_by_asking_only_if_one_may_create_it(talk: Talk) -> None:
    allow(talk, Operation.DESCRIBE, "new")
    assert await topics_seen(talk, "new") == {"new": DENIED}
    assert talk.broker.topics.get("new") is None
    allow(talk, Operation.CREATE, "kafka-cluster", Resource.CLUSTER)
    assert await topics_seen(talk, "new") == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    await moment(talk)
    assert await topics_seen(talk, "new") == {"new": 0}


async def test_authorized_operations_are_those_that_are(talk: Talk) -> None:
    allow(talk, Operation.WRITE)
    asked = MetadataRequest(
        topics=None, include_topic_authorized_operations=True, include_cluster_authorized_operations=True
    )
    response = await talk.ask(asked, 9, MetadataResponse)
    assert response.topics[0].topic_authorized_operations == 1 << Operation.WRITE | 1 << Operation.DESCRIBE
    assert response.cluster_authorized_operations == 0
    allow(talk, Operation.DESCRIBE, "kafka-cluster", Resource.CLUSTER)
    wanted = DescribeClusterRequest(include_cluster_authorized_operations=True)
    cluster = await talk.ask(wanted, 0, DescribeClusterResponse)
    assert cluster.cluster_authorized_operations == 1 << Operation.DESCRIBE


async def test_what_one_may_do_with_the_cluster_is_told_to_who_may_describe_it(talk: Talk) -> None:
    allow(talk, Operation.CREATE, "kafka-cluster", Resource.CLUSTER)
    wanted = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert (await talk.ask(wanted, 0, DescribeClusterResponse)).cluster_authorized_operations == 0
    allow(talk, Operation.DESCRIBE, "kafka-cluster", Resource.CLUSTER)
    told = (await talk.ask(wanted, 0, DescribeClusterResponse)).cluster_authorized_operations
    assert told == 1 << Operation.CREATE | 1 << Operation.DESCRIBE


async def test_what_one_may_not_write_is_refused_and_the_rest_written(talk: Talk) -> None:
    allow(talk, Operation.WRITE)
    assert (await talk.produce("mine", b"a")).error_code == 0
    assert (await talk.produce("theirs", b"a")).error_code == DENIED
    theirs = talk.broker.topics.partition("theirs", 0)
    assert theirs.offsets.end == 0


async def test_parts_of_a_request_are_answered_and_parts_refused(talk: Talk) -> None:
    allow(talk, Operation.DESCRIBE)
    asked = [
        ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        for name in ("theirs", "mine", "nowhere")
    ]
    response = await talk.ask(ListOffsetsRequest(replica_id=-1, topics=asked), 5, ListOffsetsResponse)
    told = {one.name: (one.partitions[0].error_code, one.partitions[0].offset) for one in response.topics}
    assert told == {"mine": (0, 0), "theirs": (DENIED, -1), "nowhere": (DENIED, -1)}


async def test_what_one_may_not_read_is_not_read_even_from_a_session_that_could(talk: Talk) -> None:
    talk.facts.principal = "User:root"
    await talk.produce("mine", b"secret")
    talk.facts.principal = "User:alice"
    refused = (await talk.fetch("mine", 0)).responses[0].partitions[0]
    assert (refused.error_code, bytes_of(refused), refused.high_watermark) == (DENIED, b"", -1)
    allow(talk, Operation.READ)
    assert b"secret" in bytes_of((await talk.fetch("mine", 0)).responses[0].partitions[0])
    talk.broker.acls.remove(Filter())
    assert (await talk.fetch("mine", 0)).responses[0].partitions[0].error_code == DENIED


def session(epoch: int, session_id: int = 0, *topics: str, wait_ms: int = 0) -> FetchRequest:
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic=name, partitions=[asked]) for name in topics],
    )


def told(response: FetchResponse) -> dict[str, int]:
    return {topic.topic: part.error_code for topic in response.responses for part in topic.partitions}


async def test_a_session_does_not_outlive_a_right(talk: Talk) -> None:
    allow(talk, Operation.READ)
    allow(talk, Operation.WRITE)
    await talk.produce("mine", b"secret")
    opened = await talk.ask(session(0, 0, "mine"), 11, FetchResponse)
    assert (told(opened), opened.session_id != 0) == ({"mine": 0}, True)
    talk.broker.acls.remove(Filter(operation=Operation.READ))
    for epoch in (1, 2):  # every time, as it is with an error
        answer = await talk.ask(session(epoch, opened.session_id), 11, FetchResponse)
        assert told(answer) == {"mine": DENIED}
        assert bytes_of(answer.responses[0].partitions[0]) == b""
    allow(talk, Operation.READ)
    answer = await talk.ask(session(3, opened.session_id), 11, FetchResponse)
    assert b"secret" in bytes_of(answer.responses[0].partitions[0])


async def test_a_session_does_not_tell_when_somebody_writes_to_a_hidden_topic(talk: Talk) -> None:
    """It waited for that topic, and was answered with a refusal as soon as something came."""
    allow(talk, Operation.READ)
    opened = await talk.ask(session(0, 0, "mine", "theirs"), 11, FetchResponse)
    assert told(opened) == {"mine": 0, "theirs": DENIED}
    waits = asyncio.ensure_future(talk.ask(session(1, opened.session_id, wait_ms=1000), 11, FetchResponse))
    await moment(talk)
    root = Talk(talk.broker)
    root.facts.principal = "User:root"
    await root.produce("theirs", b"secret")
    await moment(talk)
    assert not waits.done()
    await root.produce("mine", b"good")
    answer = await waits
    assert told(answer) == {"mine": 0, "theirs": DENIED}


async def test_who_may_read_nothing_of_what_is_asked_does_not_wait(talk: Talk) -> None:
    answer = await asyncio.wait_for(talk.ask(session(-1, 0, "theirs", wait_ms=60_000), 11, FetchResponse), 5)
    assert told(answer) == {"theirs": DENIED}


async def test_a_right_that_is_withdrawn_while_a_fetch_waits_counts(talk: Talk) -> None:
    allow(talk, Operation.READ)
    waits = asyncio.ensure_future(talk.ask(session(-1, 0, "mine", wait_ms=1000), 11, FetchResponse))
    await moment(talk)
    talk.broker.acls.remove(Filter())
    root = Talk(talk.broker)
    root.facts.principal = "User:root"
    await root.produce("mine", b"secret")
    answer = await waits
    assert (told(answer), bytes_of(answer.responses[0].partitions[0])) == ({"mine": DENIED}, b"")


async def test_an_idempotent_producer_needs_some_topic_to_write_to(talk: Talk) -> None:
    asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    refused = await talk.ask(asked, 4, InitProducerIdResponse)
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    allow(talk, Operation.WRITE)
    assert (await talk.ask(asked, 4, InitProducerIdResponse)).error_code == 0


def creation(name: str = "mine", /, **other: object) -> AclCreation:
    values: dict[str, object] = {
        "resource_type": Resource.TOPIC,
        "resource_name": name,
        "resource_pattern_type": Pattern.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
    }
    return AclCreation(**{**values, **other})  # type: ignore[arg-type]


EVERYTHING = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
EVERYTHING |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}


async def test_acls_are_made_told_and_withdrawn(talk: Talk) -> None:
    talk.facts.principal = "User:root"
    asked = CreateAclsRequest(creations=[creation(), creation("m", resource_pattern_type=Pattern.PREFIXED), creation()])
    assert [one.error_code for one in (await talk.ask(asked, 3, CreateAclsResponse)).results] == [0, 0, 0]
    told = await talk.ask(DescribeAclsRequest(**EVERYTHING), 3, DescribeAclsResponse)  # type: ignore[arg-type]
    assert [(one.resource_name, one.pattern_type, len(one.acls)) for one in told.resources] == [
        ("mine", 3, 1),
        ("m", 4, 1),
    ]
    wanted = DeleteAclsRequest(filters=[DeleteAclsFilter(**{**EVERYTHING, "resource_name_filter": "mine"})])  # type: ignore[arg-type]
    gone = await talk.ask(wanted, 3, DeleteAclsResponse)
    assert [one.resource_name for one in gone.filter_results[0].matching_acls] == ["mine"]
    assert [one.name for one in talk.broker.acls.matching(Filter())] == ["m"]


@pytest.mark.parametrize(
    "other",
    [
        {"resource_type": 1},
        {"resource_type": 99},
        {"resource_pattern_type": 2},
        {"operation": 1},
        {"permission_type": 1},
        {"principal": "alice"},
        {"resource_name": ""},
        {"resource_type": Resource.CLUSTER},
        {"host": ""},
    ],
    ids=str,
)
async def test_an_acl_that_makes_no_sense_is_refused(talk: Talk, other: dict[str, object]) -> None:
    talk.facts.principal = "User:root"
    response = await talk.ask(CreateAclsRequest(creations=[creation(**other), creation()]), 3, CreateAclsResponse)
    assert [one.error_code for one in response.results] == [ErrorCode.INVALID_REQUEST, 0]


async def test_acls_outlive_a_restart(tmp_path: Path) -> None:
    async with talking(tmp_path, durability=Durability.OS, settings=SETTINGS, topics=TOPICS) as talk:
        allow(talk, Operation.READ)
        allow(talk, Operation.WRITE)
        talk.broker.acls.remove(Filter(operation=Operation.WRITE))
    async with talking(tmp_path, durability=Durability.OS, settings=SETTINGS) as talk:
        assert [one.operation for one in talk.broker.acls.matching(Filter())] == [Operation.READ]


async def test_without_an_authorizer_there_are_no_acls_to_speak_of(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        told = await talk.ask(DescribeAclsRequest(**EVERYTHING), 3, DescribeAclsResponse)  # type: ignore[arg-type]
        assert told.error_code == ErrorCode.SECURITY_DISABLED
        made = await talk.ask(CreateAclsRequest(creations=[creation()]), 3, CreateAclsResponse)
        assert made.results[0].error_code == ErrorCode.SECURITY_DISABLED


async def test_a_group_that_reads_a_hidden_topic_is_described_without_its_members(talk: Talk) -> None:
    allow(talk, Operation.READ, "g", Resource.GROUP)
    allow(talk, Operation.DESCRIBE)
    joining = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=5000, subscribed_topic_names=["mine"],
        topic_partitions=[],
    )  # fmt: skip
    assert (await talk.ask(joining, 1, ConsumerGroupHeartbeatResponse)).error_code == 0
    asked = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True)
    seen = (await talk.ask(asked, 1, ConsumerGroupDescribeResponse)).groups[0]
    assert (seen.error_code, len(seen.members)) == (0, 1)
    assert seen.authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE
    talk.broker.acls.remove(Filter(resource=Resource.TOPIC))
    hidden = (await talk.ask(asked, 1, ConsumerGroupDescribeResponse)).groups[0]
    assert (hidden.error_code, hidden.members) == (DENIED, [])
    joining.subscribed_topic_names = ["theirs"]
    assert (await talk.ask(joining, 1, ConsumerGroupHeartbeatResponse)).error_code == DENIED
