"""DescribeGroups: classic groups in detail."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Bytes, Int16, Int32, String, message, since, struct


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    """Describe these groups."""

    groups: list[String]
    include_authorized_operations: Bool = since(3, default=False)


@struct
class DescribedGroupMember:
    member_id: String
    group_instance_id: String | None = since(4, default=None)
    client_id: String
    client_host: String
    member_metadata: Bytes
    member_assignment: Bytes


@struct
class DescribedGroup:
    error_code: Int16 = 0
    error_message: String | None = since(6, default=None)
    group_id: String
    group_state: String
    protocol_type: String
    protocol_data: String
    members: list[DescribedGroupMember]
    authorized_operations: Int32 = since(3, default=-2147483648)


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    """State, protocol and members of each group."""

    throttle_time_ms: Int32 = since(1, default=0)
    groups: list[DescribedGroup]
