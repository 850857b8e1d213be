"""FindCoordinator: which broker keeps a group or a transaction. There is one broker, so it is this one.

Versions
    0    groups only
    1    transactional ids, throttle time, error message
    3    flexible
    4    many keys in one request
    6    share groups
Not done
    share groups: key type 2 is refused
"""

from __future__ import annotations

from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.errors import ErrorCode, InvalidRequest
from broker_lite.wire.messages.k10_find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP = 0
TRANSACTION = 1
_FIRST_WITH_MANY = 4
_NO_ERROR = "NONE"
"""What Kafka says of a single key whose coordinator it found. Of many it says nothing."""


@serves(FindCoordinatorRequest, versions="0-6")
def find_coordinator(ctx: Context, req: FindCoordinatorRequest) -> Steps[FindCoordinatorResponse]:
    node = ctx.advertised()
    if req.key_type not in (GROUP, TRANSACTION):
        return _refuse(ctx, req, InvalidRequest(f"there is no coordinator for keys of type {req.key_type}"))
    if ctx.version < _FIRST_WITH_MANY:
        return FindCoordinatorResponse(node_id=node.id, host=node.host, port=node.port, error_message=_NO_ERROR)
    found: list[Coordinator] = []
    for key in req.coordinator_keys:
        yield 1
        found.append(Coordinator(key=key, node_id=node.id, host=node.host, port=node.port, error_message=""))
    return FindCoordinatorResponse(coordinators=found)


def _refuse(ctx: Context, req: FindCoordinatorRequest, error: InvalidRequest) -> FindCoordinatorResponse:
    code, text = ErrorCode(error.code), error.message
    if ctx.version < _FIRST_WITH_MANY:
        return FindCoordinatorResponse(error_code=code, error_message=text, node_id=-1, host="", port=-1)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=text)
            for key in req.coordinator_keys
        ]
    )
