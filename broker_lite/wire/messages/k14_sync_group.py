"""SyncGroup: handing out a classic group's assignment."""

from __future__ import annotations

from broker_lite.wire.schema import Bytes, Int16, Int32, String, message, since, struct


@struct
class SyncGroupRequestAssignment:
    member_id: String
    assignment: Bytes


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    """The leader brings every assignment, the others come empty-handed."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = since(3, default=None)
    protocol_type: String | None = since(5, default=None, ignorable=True)
    protocol_name: String | None = since(5, default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment]


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    """What this member is to read."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = 0
    protocol_type: String | None = since(5, default=None)
    protocol_name: String | None = since(5, default=None)
    assignment: Bytes
