"""DeleteGroups: removing groups."""

from __future__ import annotations

from broker_lite.wire.schema import Int16, Int32, String, message, struct


@message(key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    """Delete these groups."""

    groups_names: list[String]


@struct
class DeletableGroupResult:
    group_id: String
    error_code: Int16 = 0


@message(key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    """Per group whether it is gone."""

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult]
