"""JoinGroup: entering a classic group."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Bytes, Int16, Int32, String, field, message, since, struct


@struct
class JoinGroupRequestProtocol:
    name: String
    metadata: Bytes


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    """Let this member in, with the protocols it can speak."""

    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = since(1, default=-1, ignorable=True)
    member_id: String
    group_instance_id: String | None = since(5, default=None)
    protocol_type: String
    protocols: list[JoinGroupRequestProtocol]
    reason: String | None = since(8, default=None, ignorable=True)


@struct
class JoinGroupResponseMember:
    member_id: String
    group_instance_id: String | None = since(5, default=None)
    metadata: Bytes


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    """The new generation; the leader also learns of all members."""

    throttle_time_ms: Int32 = since(2, default=0)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: String | None = since(7, default=None)
    protocol_name: String | None = field(nullable="7+")
    leader: String
    skip_assignment: Bool = since(9, default=False)
    member_id: String
    members: list[JoinGroupResponseMember]
