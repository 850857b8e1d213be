"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup and what admins ask about groups, in every version."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from broker_lite.clock import ManualClock
from broker_lite.errors import ErrorCode
from broker_lite.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from broker_lite.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from broker_lite.wire.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from broker_lite.wire.messages.k14_sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from broker_lite.wire.messages.k15_describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from broker_lite.wire.messages.k16_list_groups import ListGroupsRequest, ListGroupsResponse
from broker_lite.wire.messages.k42_delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from broker_lite.wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tests.support.talk import NOW, Talk, talking


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
async def talk(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Talk]:
    async with talking(tmp_path, clock) as talk:
        talk.broker.topics.create("t", 2, {})
        yield talk


def join_request(version: int, member: str = "", *, group: str = "g", session_ms: int = 10_000) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=20_000 if version else -1,
        member_id=member,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"wants")],
    )


async def join(talk: Talk, version: int, clock: ManualClock) -> JoinGroupResponse:
    """As clients do it: from version 4 on in two steps."""
    member = ""
    if version >= 4:
        first = await talk.ask(join_request(version), version, JoinGroupResponse)
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert first.member_id.startswith("test-")
        member = first.member_id
    joined: list[JoinGroupResponse] = []

    async def ask() -> None:
        joined.append(await talk.ask(join_request(version, member), version, JoinGroupResponse))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        while not joined:
            await anyio.lowlevel.checkpoint()
            clock.advance(0.01)
    return joined[0]


@pytest.mark.parametrize("version", [0, 5, 9])
async def test_metadata_that_no_group_could_write_is_refused_at_once(talk: Talk, version: int) -> None:
    request = join_request(version)
    half = JoinGroupRequestProtocol(name="range", metadata=bytes(600_000))
    request.protocols = [half, JoinGroupRequestProtocol(name="sticky", metadata=half.metadata)]
    answer = await talk.ask(request, version, JoinGroupResponse)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert list(talk.broker.groups) == []


async def sync(talk: Talk, version: int, joined: JoinGroupResponse, assignment: bytes = b"gets") -> SyncGroupResponse:
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)],
    )
    return await talk.ask(request, version, SyncGroupResponse)


@pytest.mark.parametrize("version", range(10))
async def test_a_member_joins_syncs_beats_and_leaves(talk: Talk, clock: ManualClock, version: int) -> None:
    joined = await join(talk, version, clock)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    assert joined.leader == joined.member_id
    assert [(member.member_id, member.metadata) for member in joined.members] == [(joined.member_id, b"wants")]
    synced = await sync(talk, min(version, 5), joined)
    assert (synced.error_code, synced.assignment) == (0, b"gets")
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    assert (await talk.ask(beat, min(version, 4), HeartbeatResponse)).error_code == 0
    beat.generation_id = 2
    assert (await talk.ask(beat, min(version, 4), HeartbeatResponse)).error_code == ErrorCode.ILLEGAL_GENERATION
    if version < 3:
        left = await talk.ask(LeaveGroupRequest(group_id="g", member_id=joined.member_id), version, LeaveGroupResponse)
        assert left.error_code == 0
    else:
        leaving = [MemberIdentity(member_id=joined.member_id), MemberIdentity(member_id="x")]
        request = LeaveGroupRequest(group_id="g", members=leaving)
        left = await talk.ask(request, min(version, 5), LeaveGroupResponse)
        assert [member.error_code for member in left.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize("version", range(10))
async def test_a_refused_join_names_the_member(talk: Talk, version: int) -> None:
    response = await talk.ask(join_request(version, "x"), version, JoinGroupResponse)
    assert (response.error_code, response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "x")
    assert (response.generation_id, response.leader, response.members) == (-1, "", [])
    assert response.protocol_name == (None if version >= 7 else "")
    response = await talk.ask(join_request(version, session_ms=1), version, JoinGroupResponse)
    assert response.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    response = await talk.ask(join_request(version, group=""), version, JoinGroupResponse)
    assert response.error_code == ErrorCode.INVALID_GROUP_ID


async def test_a_sync_of_version_5_must_name_its_protocol(talk: Talk, clock: ManualClock) -> None:
    joined = await join(talk, 9, clock)
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id=joined.member_id, assignments=[])
    response = await talk.ask(request, 5, SyncGroupResponse)
    assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (await talk.ask(request, 4, SyncGroupResponse)).error_code == 0


async def test_leaving_a_group_that_never_was(talk: Talk) -> None:
    old = await talk.ask(LeaveGroupRequest(group_id="g", member_id="x"), 2, LeaveGroupResponse)
    assert old.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    new = await talk.ask(
        LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="x")]), 5, LeaveGroupResponse
    )
    assert new.error_code == 0
    assert new.members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(7))
async def test_groups_are_described(talk: Talk, clock: ManualClock, version: int) -> None:
    joined = await join(talk, 9, clock)
    request = DescribeGroupsRequest(groups=["g", "never"], include_authorized_operations=version >= 3)
    group, never = (await talk.ask(request, version, DescribeGroupsResponse)).groups
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert never.group_state == "Dead"
    assert never.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    assert never.error_message == ("Group never not found." if version >= 6 else None)
    await sync(talk, 5, joined)
    group, _ = (await talk.ask(request, version, DescribeGroupsResponse)).groups
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    assert group.authorized_operations == (3400 if version >= 3 else -(2**31))
    (member,) = group.members
    assert (member.client_id, member.client_host) == ("test", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"wants", b"gets")


async def test_groups_are_listed_by_state_and_type(talk: Talk, clock: ManualClock) -> None:
    await sync(talk, 5, await join(talk, 9, clock))

    async def names(version: int = 5, **filters: list[str]) -> list[str]:
        response = await talk.ask(ListGroupsRequest(**filters), version, ListGroupsResponse)
        return [group.group_id for group in response.groups]

    for version in range(6):
        assert await names(version) == ["g"]
    assert await names(states_filter=["stable"]) == ["g"]
    assert await names(states_filter=["Empty", "Dead"]) == []
    assert await names(types_filter=["Classic"]) == ["g"]
    assert await names(types_filter=["consumer"]) == []
    (group,) = (await talk.ask(ListGroupsRequest(), 5, ListGroupsResponse)).groups
    assert (group.protocol_type, group.group_state, group.group_type) == ("consumer", "Stable", "classic")


@pytest.mark.parametrize("version", range(3))
async def test_only_groups_without_members_are_deleted(talk: Talk, clock: ManualClock, version: int) -> None:
    joined = await join(talk, 9, clock)

    async def delete() -> list[tuple[str, int]]:
        response = await talk.ask(DeleteGroupsRequest(groups_names=["g", "never"]), version, DeleteGroupsResponse)
        return [(result.group_id, result.error_code) for result in response.results]

    assert await delete() == [("g", ErrorCode.NON_EMPTY_GROUP), ("never", ErrorCode.GROUP_ID_NOT_FOUND)]
    await talk.ask(LeaveGroupRequest(group_id="g", member_id=joined.member_id), 1, LeaveGroupResponse)
    assert await delete() == [("g", 0), ("never", ErrorCode.GROUP_ID_NOT_FOUND)]
    assert list(talk.broker.groups) == []


async def test_offsets_of_a_group_that_never_was_cannot_be_deleted(talk: Talk) -> None:
    lines = [OffsetDeleteRequestPartition(partition_index=0)]
    request = OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=lines)])
    assert (await talk.ask(request, 0, OffsetDeleteResponse)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    request.group_id = ""
    assert (await talk.ask(request, 0, OffsetDeleteResponse)).error_code == ErrorCode.INVALID_GROUP_ID
