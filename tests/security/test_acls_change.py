"""What was allowed is remembered for who asks often, and forgotten the moment that somebody changes an ACL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_lite.errors import ErrorCode
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.security.acls import Allowed, Binding, Filter, Operation, Pattern, Permission, Resource
from broker_lite.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from broker_lite.wire.messages.k30_create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from broker_lite.wire.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from tests.security.test_visible import SETTINGS, TOPICS, allow
from tests.support.acls import every
from tests.support.talk import Talk, talking

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
BY_NAME, BY_ID = 9, 13


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path, settings=SETTINGS, topics=TOPICS) as talk:
        talk.facts.principal = "User:alice"
        yield talk


async def write(talk: Talk, version: int, *names: str) -> list[int]:
    """The error of each topic."""
    batch = memoryview(build_batch([NewRecord(None, b"x")], timestamp=0))
    data = [PartitionProduceData(index=0, records=batch)]
    asked = []
    for name in names:
        topic = talk.broker.topics.get(name)
        assert topic is not None
        asked.append(
            TopicProduceData(topic_id=topic.id, partition_data=data)
            if version == BY_ID
            else TopicProduceData(name=name, partition_data=data)
        )
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=asked)
    response = await talk.ask(request, version, ProduceResponse)
    return [one.partition_responses[0].error_code for one in response.responses]


def deny(talk: Talk, principal: str = "User:alice", host: str = "*") -> None:
    rule = Binding(Resource.TOPIC, "mine", Pattern.LITERAL, principal, host, Operation.WRITE, Permission.DENY)
    talk.broker.acls.add([rule])


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
async def test_what_was_allowed_ends_with_the_acl(talk: Talk, version: int) -> None:
    allow(talk, Operation.WRITE)
    for _ in range(3):
        assert await write(talk, version, "mine") == [0]
    talk.broker.acls.remove(Filter(operation=Operation.WRITE))
    assert await write(talk, version, "mine") == [DENIED]
    allow(talk, Operation.WRITE)
    assert await write(talk, version, "mine") == [0]


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
async def test_a_denial_holds_from_the_next_request_on(talk: Talk, version: int) -> None:
    allow(talk, Operation.WRITE)
    assert await write(talk, version, "mine") == [0]
    deny(talk, host="10.0.0.1")
    assert await write(talk, version, "mine") == [0], "it is about another address"
    deny(talk)
    assert await write(talk, version, "mine") == [DENIED]


async def test_a_change_over_the_wire_holds_at_once_too(talk: Talk) -> None:
    root = Talk(talk.broker)
    root.facts.principal = "User:root"
    rule = AclCreation(
        resource_type=Resource.TOPIC,
        resource_name="mi",
        resource_pattern_type=Pattern.PREFIXED,
        principal="User:alice",
        host="*",
        operation=Operation.WRITE,
        permission_type=Permission.ALLOW,
    )
    assert await write(talk, BY_NAME, "mine") == [DENIED]
    made = await root.ask(CreateAclsRequest(creations=[rule]), 3, CreateAclsResponse)
    assert made.results[0].error_code == 0
    assert await write(talk, BY_NAME, "mine") == [0]
    gone = await root.ask(DeleteAclsRequest(filters=[every(DeleteAclsFilter)]), 3, DeleteAclsResponse)
    assert len(gone.filter_results[0].matching_acls) == 1
    assert await write(talk, BY_NAME, "mine") == [DENIED]


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
async def test_one_topic_that_was_allowed_does_not_open_another(talk: Talk, version: int) -> None:
    allow(talk, Operation.WRITE)
    assert await write(talk, version, "mine") == [0]
    assert sorted(await write(talk, version, "mine", "theirs")) == [0, DENIED]
    assert await write(talk, version, "theirs") == [DENIED]


async def test_what_one_user_was_allowed_is_not_another_users(talk: Talk) -> None:
    allow(talk, Operation.WRITE)
    assert await write(talk, BY_NAME, "mine") == [0]
    talk.facts.principal = "User:mallory"
    assert await write(talk, BY_NAME, "mine") == [DENIED]


def test_what_is_remembered_is_bounded() -> None:
    allowed = Allowed("User:alice", 0)
    for number in range(5000):
        allowed.remember(f"t{number}")
    assert len(allowed.names) <= 1000
    assert "t4999" in allowed.names
