"""ListGroups: all groups, or those in some states or of some types.

Versions
    3    flexible
    4    filter by state; the state of each group
    5    filter by type; the type of each group
"""

from __future__ import annotations

from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.broker.responses import units
from broker_lite.wire.messages.k16_list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


@serves(ListGroupsRequest, versions="0-5")
def list_groups(ctx: Context, req: ListGroupsRequest) -> Steps[ListGroupsResponse]:
    states = {state.lower() for state in req.states_filter}
    types = {kind.lower() for kind in req.types_filter}
    listed: list[ListedGroup] = []
    for group in list(ctx.broker.groups):
        if (states and group.state.value.lower() not in states) or (types and group.kind not in types):
            continue
        yield units(len(group.id))
        listed.append(
            ListedGroup(
                group_id=group.id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=group.kind,
            )
        )
    return ListGroupsResponse(groups=listed)
