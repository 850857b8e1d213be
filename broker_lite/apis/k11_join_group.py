"""JoinGroup: a member comes in, or comes again because the group gathers a new generation.

Versions
    0      the session time-out is the rebalance time-out too
    1      a rebalance time-out of its own
    4      a newcomer gets its id first (MEMBER_ID_REQUIRED) and asks again with it
    5      static members
    6      flexible
    7      protocol type and name may be null
    8      a reason, for the log
    9      a returning leader is told to assign nothing

Not as Kafka: metadata that the group's log could never take is refused here. Kafka keeps it in memory until the session
is over and fails at SyncGroup, when the group is written.
"""

from __future__ import annotations

import uuid

from broker_lite.apis.registry import Context, serves
from broker_lite.config.broker import MESSAGE_MAX_BYTES
from broker_lite.coordinator.groups.members import Join
from broker_lite.errors import BrokerError, ErrorCode, InvalidRequest
from broker_lite.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

_FIRST_WITH_REBALANCE_TIMEOUT = 1
_FIRST_WITH_ID_FIRST = 4
_FIRST_WITH_NO_PROTOCOL = 7
_FIRST_WITH_SKIP = 9


def _not_joined(ctx: Context, req: JoinGroupRequest, error: BrokerError) -> JoinGroupResponse:
    # Kafka forgets the name of whom a full group refuses, and of whom a consumer group does.
    is_full = error.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    is_guest = error.code is not ErrorCode.INVALID_SESSION_TIMEOUT and ctx.broker.groups.is_of_consumers(req.group_id)
    return JoinGroupResponse(
        error_code=ctx.code(error),
        protocol_name=_protocol(ctx, None),
        leader="",
        member_id="" if is_full or is_guest else req.member_id,
        members=[],
    )


@serves(JoinGroupRequest, versions="0-9", refuse=_not_joined)
async def join_group(ctx: Context, req: JoinGroupRequest) -> JoinGroupResponse:
    size, most = sum(len(one.metadata) for one in req.protocols), ctx.broker.settings.get(MESSAGE_MAX_BYTES)
    if size > most:
        raise InvalidRequest(f"the protocols have {size} bytes of metadata, a group's log takes at most {most}")
    has_timeout = ctx.version >= _FIRST_WITH_REBALANCE_TIMEOUT
    joined = await ctx.broker.groups.join(
        Join(
            group=req.group_id,
            member_id=req.member_id,
            instance_id=req.group_instance_id,
            client_id=ctx.client_id,
            client_host=f"/{ctx.connection.peer[0]}",
            protocol_type=req.protocol_type,
            protocols=[(protocol.name, protocol.metadata) for protocol in req.protocols],
            session_timeout_ms=req.session_timeout_ms,
            rebalance_timeout_ms=req.rebalance_timeout_ms if has_timeout else req.session_timeout_ms,
            new_member_id=f"{req.group_instance_id or ctx.client_id}-{uuid.uuid4()}",
            id_first=ctx.version >= _FIRST_WITH_ID_FIRST,
            may_skip_assignment=ctx.version >= _FIRST_WITH_SKIP,
        )
    )
    return JoinGroupResponse(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=_protocol(ctx, joined.protocol),
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponseMember(member_id=m.id, group_instance_id=m.instance_id, metadata=m.metadata)
            for m in joined.members
        ],
    )


def _protocol(ctx: Context, name: str | None) -> str | None:
    return name if name is not None or ctx.version >= _FIRST_WITH_NO_PROTOCOL else ""
