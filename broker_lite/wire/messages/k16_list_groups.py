"""ListGroups: the groups a broker knows."""

from __future__ import annotations

from broker_lite.wire.schema import Int16, Int32, String, message, since, struct


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    """List groups, filtered by state from version 4 and by type from version 5."""

    states_filter: list[String] = since(4, default=[])
    types_filter: list[String] = since(5, default=[])


@struct
class ListedGroup:
    group_id: String
    protocol_type: String
    group_state: String = since(4, default="")
    group_type: String = since(5, default="")


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    """The groups that passed the filters."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = 0
    groups: list[ListedGroup]
