"""CreateAcls: allow or deny somebody something.

Versions
    0    literal names only
    1    prefixes
    2    flexible
    3    the resource type USER
"""

from __future__ import annotations

from broker_lite.apis.acl_bindings import binding_of, require_acls
from broker_lite.apis.registry import Context, serves
from broker_lite.errors import BrokerError
from broker_lite.security.acls import Binding
from broker_lite.wire.messages.k30_create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


@serves(CreateAclsRequest, versions="0-3")
def create_acls(ctx: Context, req: CreateAclsRequest) -> CreateAclsResponse:
    """What makes sense is written in one go; what does not is told so, one by one."""
    require_acls(ctx)
    bindings: list[Binding] = []
    results: list[AclCreationResult] = []
    for asked in req.creations:
        result = AclCreationResult(error_message="")
        try:
            bindings.append(binding_of(asked))
        except BrokerError as error:
            result.error_code, result.error_message = ctx.code(error), error.message
        results.append(result)
    ctx.broker.acls.add(bindings)
    return CreateAclsResponse(results=results)
