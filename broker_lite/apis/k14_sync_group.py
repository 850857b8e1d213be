"""SyncGroup: the leader brings the assignment, the others wait for it.

Versions
    3    static members
    4    flexible
    5    protocol type and name, which must be there and be the group's
"""

from __future__ import annotations

from broker_lite.apis.registry import Context, serves
from broker_lite.coordinator.groups.members import Sync
from broker_lite.errors import BrokerError, InconsistentGroupProtocol
from broker_lite.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupResponse

_FIRST_WITH_PROTOCOL = 5


def _not_synced(ctx: Context, req: SyncGroupRequest, error: BrokerError) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=ctx.code(error), assignment=b"")


@serves(SyncGroupRequest, versions="0-5", refuse=_not_synced)
async def sync_group(ctx: Context, req: SyncGroupRequest) -> SyncGroupResponse:
    if ctx.version >= _FIRST_WITH_PROTOCOL and None in (req.protocol_type, req.protocol_name):
        raise InconsistentGroupProtocol("protocol type and name are missing")
    synced = await ctx.broker.groups.sync(
        Sync(
            group=req.group_id,
            member_id=req.member_id,
            instance_id=req.group_instance_id,
            generation=req.generation_id,
            protocol_type=req.protocol_type,
            protocol=req.protocol_name,
            assignments={one.member_id: one.assignment for one in req.assignments},
        )
    )
    return SyncGroupResponse(
        error_code=synced.error,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )
