"""LeaveGroup: members go, or an admin removes them.

Versions
    0-2    one member
    3      many, also static members by their instance id alone
    4      flexible
    5      a reason, for the log
"""

from __future__ import annotations

from collections.abc import Awaitable

from broker_lite.apis.registry import Context, serves
from broker_lite.errors import ErrorCode, UnknownMemberId
from broker_lite.wire.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

_FIRST_WITH_MANY = 3


@serves(LeaveGroupRequest, versions="0-5")
def leave_group(ctx: Context, req: LeaveGroupRequest) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    leaving: list[tuple[str, str | None]] = [(one.member_id, one.group_instance_id) for one in req.members]
    if ctx.version < _FIRST_WITH_MANY:
        leaving = [(req.member_id, None)]
    try:
        codes = ctx.broker.groups.leave(req.group_id, leaving)
    except UnknownMemberId:
        codes = [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
    if ctx.version < _FIRST_WITH_MANY:
        response = LeaveGroupResponse(error_code=codes[0])
    else:
        response = LeaveGroupResponse(
            members=[
                MemberResponse(member_id=member_id, group_instance_id=instance_id, error_code=code)
                for (member_id, instance_id), code in zip(leaving, codes)
            ]
        )
    return ctx.broker.groups.when_durable(req.group_id, response)
