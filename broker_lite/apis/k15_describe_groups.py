"""DescribeGroups: state, protocol and members of classic groups.

Versions
    0-5    a group that does not exist is Dead, without an error
    3      authorized operations
    4      instance ids
    5      flexible
    6      a group that does not exist, or is not classic, is GROUP_ID_NOT_FOUND, with a message
"""

from __future__ import annotations

from broker_lite.apis.authorized import GROUP_OPERATIONS, NOT_ASKED
from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.broker.responses import units
from broker_lite.coordinator.groups.classic import ClassicGroup
from broker_lite.coordinator.groups.state import State
from broker_lite.errors import BrokerError, GroupIdNotFound
from broker_lite.wire.messages.k15_describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

_FIRST_WITH_NOT_FOUND = 6


@serves(DescribeGroupsRequest, versions="0-6")
def describe_groups(ctx: Context, req: DescribeGroupsRequest) -> Steps[DescribeGroupsResponse]:
    """A group that is asked for again is told again, as Kafka does, but looked up once."""
    operations = GROUP_OPERATIONS if req.include_authorized_operations else NOT_ASKED
    found: dict[str, tuple[DescribedGroup, int]] = {}
    groups: list[DescribedGroup] = []
    for group_id in req.groups:
        if group_id not in found:
            group = _describe(ctx, group_id)
            group.authorized_operations = operations if group.error_code == 0 else NOT_ASKED
            found[group_id] = group, _units(group)
        yield found[group_id][1]
        groups.append(found[group_id][0])
    return DescribeGroupsResponse(groups=groups)


def _units(group: DescribedGroup) -> int:
    members = (units(len(one.member_metadata) + len(one.member_assignment)) for one in group.members)
    return units(len(group.group_id)) + sum(members)


def _describe(ctx: Context, group_id: str) -> DescribedGroup:
    described = DescribedGroup(group_id=group_id, group_state="", protocol_type="", protocol_data="", members=[])
    try:
        group = ctx.broker.groups.of(group_id).group(group_id)
        if not isinstance(group, ClassicGroup):
            raise GroupIdNotFound(f"Group {group_id} is not a classic group.")
    except GroupIdNotFound as error:
        described.group_state = State.DEAD.value
        if ctx.version >= _FIRST_WITH_NOT_FOUND:
            described.error_code, described.error_message = error.code, error.message
        return described
    except BrokerError as error:
        described.error_code, described.error_message = error.code, error.message
        return described
    is_stable = group.state is State.STABLE
    described.group_state = group.state.value
    described.protocol_type = group.protocol_type or ""
    described.protocol_data = group.protocol or "" if is_stable else ""
    described.members = [
        DescribedGroupMember(
            member_id=member.id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata(group.protocol) if is_stable else b"",
            member_assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    return described
