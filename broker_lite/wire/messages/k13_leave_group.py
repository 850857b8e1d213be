"""LeaveGroup: leaving a classic group."""

from __future__ import annotations

from broker_lite.wire.schema import Int16, Int32, String, field, message, since, struct


@struct
class MemberIdentity:
    member_id: String
    group_instance_id: String | None = None
    reason: String | None = since(5, default=None, ignorable=True)


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    """These members go; before version 3 only one."""

    group_id: String
    member_id: String = field(versions="0-2", default="")
    members: list[MemberIdentity] = since(3, default=[])


@struct
class MemberResponse:
    member_id: String
    group_instance_id: String | None
    error_code: Int16 = 0


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    """Who was let go."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = 0
    members: list[MemberResponse] = since(3, default=[])
