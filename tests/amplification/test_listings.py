"""What is honestly long is answered whole: a cluster of twenty thousand topics, and all that belongs to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import pytest

from broker_lite.apis import registry
from broker_lite.broker.topics import NewTopic
from broker_lite.errors import ErrorCode
from broker_lite.security.acls import Operation, Pattern, Permission, Resource
from broker_lite.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from broker_lite.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from broker_lite.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from broker_lite.wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from broker_lite.wire.messages.k16_list_groups import ListGroupsRequest, ListGroupsResponse
from broker_lite.wire.messages.k29_describe_acls import DescribeAclsRequest, DescribeAclsResponse
from broker_lite.wire.messages.k30_create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from broker_lite.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from broker_lite.wire.messages.k35_describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from broker_lite.wire.messages.k74_list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from tests.amplification.bystander import Bystander
from tests.support.acls import every
from tests.support.talk import Talk, talking

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]

TOPICS = 20_000
GROUPS = 5_000
RULES = 5_000
LONGEST_TURN = 0.5
"""Seconds of processor time."""
R = TypeVar("R")
NAMES = [f"topic-{number:05}" for number in range(TOPICS)]
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(params=["open", "guarded"])
async def talk(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Talk]:
    async with talking(tmp_path, settings=AUTHORIZER if request.param == "guarded" else {}) as talk:
        talk.broker.topics.create_all([NewTopic(name, 2, {}) for name in NAMES])
        yield talk


async def ask(talk: Talk, request: object, version: int, kind: type[R]) -> R:
    """The answer, to which nobody has to wait long."""
    bystander, frame = Bystander(talk), talk.frame(request, version)
    life = asyncio.create_task(bystander.live())
    await asyncio.sleep(0)
    reply = await talk.ask_raw(frame)
    await asyncio.sleep(0)
    life.cancel()
    assert reply is not None
    assert bystander.longest_turn < LONGEST_TURN, f"{type(request).__name__}: {bystander.longest_turn:.3f} s"
    return talk.decoded(reply, request, version, kind)


async def test_all_topics(talk: Talk) -> None:
    for version in (0, 13):
        every_topic = MetadataRequest(topics=[] if version == 0 else None)
        for _ in range(2):
            response = await ask(talk, every_topic, version, MetadataResponse)
            assert [topic.name for topic in response.topics] == NAMES
            assert all(len(topic.partitions) == 2 for topic in response.topics)
    by_name = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in NAMES])
    assert len((await ask(talk, by_name, 9, MetadataResponse)).topics) == TOPICS
    dirs = await ask(talk, DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse)
    assert len(dirs.results[0].topics) == TOPICS
    listed = await ask(talk, ListConfigResourcesRequest(resource_types=[2]), 1, ListConfigResourcesResponse)
    assert len(listed.config_resources) == TOPICS


async def test_a_topic_made_while_all_are_told_is_in_the_next_answer(talk: Talk) -> None:
    waits = registry.answer(talk.broker, talk.facts, talk.frame(MetadataRequest(topics=None), 12))
    assert asyncio.iscoroutine(waits)
    task = asyncio.create_task(waits)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    talk.broker.topics.create("new", 1, {})
    await task
    response = await ask(talk, MetadataRequest(topics=None), 12, MetadataResponse)
    assert response.topics[-1].name == "new"


async def test_the_configuration_of_all_topics(talk: Talk) -> None:
    asked = [DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None) for name in NAMES]
    response = await ask(talk, DescribeConfigsRequest(resources=asked[:10_000]), 4, DescribeConfigsResponse)
    assert not any(result.error_code for result in response.results)
    assert len(response.results) == 10_000
    for resource in asked:
        resource.configuration_keys = ["cleanup.policy", "retention.ms"]
    response = await ask(talk, DescribeConfigsRequest(resources=asked), 4, DescribeConfigsResponse)
    assert [result.resource_name for result in response.results] == NAMES
    assert all(len(result.configs) == 2 for result in response.results)


async def test_the_offsets_of_all_partitions(talk: Talk) -> None:
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(partition_index=n, committed_offset=0, committed_metadata="m")
                for n in range(2)
            ],
        )
        for name in NAMES
    ]
    for start in range(0, TOPICS, 5000):
        commit = OffsetCommitRequest(group_id="g", topics=topics[start : start + 5000])
        await talk.ask(commit, 8, OffsetCommitResponse)
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    (group,) = (await ask(talk, request, 8, OffsetFetchResponse)).groups
    assert len(group.topics) == TOPICS
    latest = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=name, partitions=[ListOffsetsPartition(partition_index=n, timestamp=-1) for n in (0, 1)]
            )
            for name in NAMES[:2000]  # each is opened for this, and stays open
        ],
    )
    ends = await ask(talk, latest, 7, ListOffsetsResponse)
    assert all(line.offset == 0 and line.error_code == ErrorCode.NONE for one in ends.topics for line in one.partitions)


async def test_all_groups(talk: Talk) -> None:
    for number in range(GROUPS):
        line = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
        topic = OffsetCommitRequestTopic(name=NAMES[0], partitions=[line])
        await talk.ask(OffsetCommitRequest(group_id=f"g{number}", topics=[topic]), 8, OffsetCommitResponse)
    assert len((await ask(talk, ListGroupsRequest(), 5, ListGroupsResponse)).groups) == GROUPS


async def test_all_rules(talk: Talk) -> None:
    if not talk.broker.acls.on:
        return
    rules = [
        AclCreation(
            resource_type=Resource.TOPIC,
            resource_name=name,
            resource_pattern_type=Pattern.PREFIXED,
            principal="User:alice",
            host="*",
            operation=Operation.READ,
            permission_type=Permission.ALLOW,
        )
        for name in NAMES[:RULES]
    ]
    await talk.ask(CreateAclsRequest(creations=rules), 3, CreateAclsResponse)
    assert len((await ask(talk, every(DescribeAclsRequest), 3, DescribeAclsResponse)).resources) == RULES
    talk.facts.principal = "User:alice"
    response = await ask(talk, MetadataRequest(topics=None), 12, MetadataResponse)
    assert [topic.name for topic in response.topics] == NAMES[:RULES]
    asked = [MetadataRequestTopic(name=name) for name in NAMES]
    response = await ask(talk, MetadataRequest(topics=asked), 12, MetadataResponse)
    allowed = [topic.name for topic in response.topics if not topic.error_code]
    assert allowed == NAMES[:RULES]
