"""DeleteAcls: withdraw what was allowed or denied.

Versions
    0    literal names only
    1    patterns
    2    flexible
    3    the resource type USER
"""

from __future__ import annotations

from broker_lite.apis.acl_bindings import filter_of, require_acls
from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Pause
from broker_lite.errors import BrokerError
from broker_lite.security.acls import Binding
from broker_lite.wire.messages.k31_delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


@serves(DeleteAclsRequest, versions="0-3")
async def delete_acls(ctx: Context, req: DeleteAclsRequest) -> DeleteAclsResponse:
    """Every filter looks at every rule, so many of them take long."""
    require_acls(ctx)
    response, pause = DeleteAclsResponse(filter_results=[]), Pause()
    for asked in req.filters:
        response.filter_results.append(_delete(ctx, asked))
        await pause.if_due()
    return response


def _delete(ctx: Context, asked: DeleteAclsFilter) -> DeleteAclsFilterResult:
    try:
        gone = ctx.broker.acls.remove(filter_of(ctx.version, asked))
    except BrokerError as error:
        return DeleteAclsFilterResult(error_code=ctx.code(error), error_message=error.message, matching_acls=[])
    return DeleteAclsFilterResult(error_message=None, matching_acls=[_told(one) for one in gone])


def _told(one: Binding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=one.resource,
        resource_name=one.name,
        pattern_type=one.pattern,
        principal=one.principal,
        host=one.host,
        operation=one.operation,
        permission_type=one.permission,
    )
