"""Heartbeat: a sign of life to a classic group."""

from __future__ import annotations

from broker_lite.wire.schema import Int16, Int32, String, message, since


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    """The member is alive and believes in this generation."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = since(3, default=None)


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    """Carry on, rejoin, or you are no member."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = 0
