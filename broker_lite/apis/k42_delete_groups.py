"""DeleteGroups: groups without members go, with their offsets.

Versions
    2    flexible
"""

from __future__ import annotations

from collections.abc import Awaitable

from broker_lite.apis.registry import Context, serves
from broker_lite.errors import BrokerError
from broker_lite.wire.messages.k42_delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


@serves(DeleteGroupsRequest, versions="0-2")
def delete_groups(ctx: Context, req: DeleteGroupsRequest) -> Awaitable[DeleteGroupsResponse] | DeleteGroupsResponse:
    response = DeleteGroupsResponse(results=[])
    for group_id in dict.fromkeys(req.groups_names):
        result = DeletableGroupResult(group_id=group_id)
        response.results.append(result)
        try:
            ctx.broker.groups.delete(group_id)
        except BrokerError as error:
            result.error_code = error.code
    if not ctx.broker.flusher.active:
        return response
    return _when_all_durable(ctx, response)


async def _when_all_durable(ctx: Context, response: DeleteGroupsResponse) -> DeleteGroupsResponse:
    for result in response.results:
        try:
            await ctx.broker.groups.durable(result.group_id)
        except BrokerError as error:
            result.error_code = error.code
    return response
