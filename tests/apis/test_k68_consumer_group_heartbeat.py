"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, through their bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_lite.config.start import Durability
from broker_lite.errors import ErrorCode
from broker_lite.shapes import replace
from broker_lite.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from broker_lite.wire.messages.k16_list_groups import ListGroupsRequest, ListGroupsResponse
from broker_lite.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from broker_lite.wire.messages.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from tests.support.talk import Talk, talking


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path) as talk:
        talk.broker.topics.create("t", 2, {})
        yield talk


def joining(member: str = "m", **more: object) -> ConsumerGroupHeartbeatRequest:
    told: dict[str, object] = {"rebalance_timeout_ms": 1000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=0, **(told | more))  # type: ignore[arg-type]


async def beat(talk: Talk, request: ConsumerGroupHeartbeatRequest, version: int = 1) -> ConsumerGroupHeartbeatResponse:
    return await talk.ask(request, version, ConsumerGroupHeartbeatResponse)


async def describe(talk: Talk, group: str = "g", version: int = 1) -> DescribedGroup:
    request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=True)
    return (await talk.ask(request, version, ConsumerGroupDescribeResponse)).groups[0]


@pytest.mark.parametrize("version", [0, 1])
async def test_a_member_is_told_its_epoch_and_its_partitions(talk: Talk, version: int) -> None:
    heard = await beat(talk, joining(), version)
    assert (heard.error_code, heard.member_id, heard.member_epoch, heard.heartbeat_interval_ms) == (0, "m", 2, 5000)
    assert heard.assignment is not None
    topic = talk.broker.topics.get("t")
    assert topic is not None
    assert [(line.topic_id, line.partitions) for line in heard.assignment.topic_partitions] == [(topic.id, [0, 1])]
    again = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=2)
    assert (await beat(talk, again, version)).assignment is None


async def test_only_the_first_version_lets_the_broker_name_its_members(talk: Talk) -> None:
    named = await beat(talk, joining(""), 0)
    assert named.error_code == 0
    assert len(named.member_id or "") == 22
    refused = await beat(talk, joining(""), 1)
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")


async def test_a_member_may_subscribe_by_pattern(talk: Talk) -> None:
    heard = await beat(talk, joining(subscribed_topic_names=None, subscribed_topic_regex="t+"))
    assert heard.assignment is not None
    assert len(heard.assignment.topic_partitions) == 1
    bad = await beat(talk, joining("n", subscribed_topic_names=None, subscribed_topic_regex="("))
    assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize("version", [0, 1])
async def test_a_group_is_described(talk: Talk, version: int) -> None:
    await beat(talk, joining(instance_id="i", rack_id="r", server_assignor="range"))
    group = await describe(talk, version=version)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)
    assert (group.assignor_name, group.authorized_operations) == ("range", 3400)
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("m", "i", "r", 2)
    assert (member.client_id, member.client_host, member.subscribed_topic_names) == ("test", "/127.0.0.1", ["t"])
    assert member.assignment == member.target_assignment
    assert [(line.topic_name, line.partitions) for line in member.assignment.topic_partitions] == [("t", [0, 1])]
    assert member.member_type == (1 if version else -1)


async def test_a_group_that_is_not_there_is_not_described(talk: Talk) -> None:
    assert (await describe(talk, "never")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await describe(talk, "")).error_code == ErrorCode.INVALID_GROUP_ID


async def test_a_consumer_group_is_listed_as_one(talk: Talk) -> None:
    await beat(talk, joining())
    response = await talk.ask(ListGroupsRequest(types_filter=["CONSUMER"]), 5, ListGroupsResponse)
    (group,) = response.groups
    assert (group.group_id, group.protocol_type, group.group_state, group.group_type) == (
        "g", "consumer", "Stable", "consumer",
    )  # fmt: skip


async def test_a_consumer_group_survives_a_restart(tmp_path: Path) -> None:
    async with talking(tmp_path, durability=Durability.OS) as talk:
        talk.broker.topics.create("t", 2, {})
        await beat(talk, joining())
    async with talking(tmp_path, durability=Durability.OS) as talk:
        heard = await beat(talk, ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=2))
        assert (heard.error_code, heard.member_epoch) == (0, 2)


async def test_the_consumer_protocol_can_be_switched_off(tmp_path: Path) -> None:
    async with talking(tmp_path, settings={"group.coordinator.rebalance.protocols": "classic"}) as talk:
        assert (await beat(talk, joining())).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await describe(talk)).error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_it_is_off_with_the_feature_too(talk: Talk) -> None:
    talk.broker.features_on.set({"group.version": 0})
    refused = await beat(talk, joining())
    assert (refused.error_code, refused.error_message) == (ErrorCode.UNSUPPORTED_VERSION, None)
    assert (await describe(talk)).error_code == ErrorCode.UNSUPPORTED_VERSION
    talk.broker.features_on.set({"group.version": 1})
    assert (await beat(talk, joining())).error_code == 0


async def test_a_consumer_group_forgets_the_name_of_a_classic_member_that_it_refuses(talk: Talk) -> None:
    """A classic group repeats it; so it is in Kafka."""
    await beat(talk, joining())
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"wants")]
    stranger = JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=10_000, member_id="x", protocol_type="connect",
        protocols=protocols,
    )  # fmt: skip
    refused = await talk.ask(stranger, 9, JoinGroupResponse)
    assert (refused.error_code, refused.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    refused = await talk.ask(replace(stranger, session_timeout_ms=1), 9, JoinGroupResponse)
    assert (refused.error_code, refused.member_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, "x")
