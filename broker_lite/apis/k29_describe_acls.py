"""DescribeAcls: who may do what.

Versions
    0    literal names only
    1    patterns: prefixes, and every pattern that matches a name
    2    flexible
    3    the resource type USER
"""

from __future__ import annotations

from broker_lite.apis.acl_bindings import filter_of, require_acls
from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.broker.responses import units
from broker_lite.security.acls import Binding, Pattern, Resource
from broker_lite.wire.messages.k29_describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


@serves(DescribeAclsRequest, versions="0-3")
def describe_acls(ctx: Context, req: DescribeAclsRequest) -> Steps[DescribeAclsResponse]:
    require_acls(ctx)
    wanted = filter_of(ctx.version, req)
    by_resource: dict[tuple[Resource, str, Pattern], list[Binding]] = {}
    for one in ctx.broker.acls.matching(wanted):
        if ctx.version > 0 or one.pattern is Pattern.LITERAL:
            yield units(len(one.name) + len(one.principal))
            by_resource.setdefault((one.resource, one.name, one.pattern), []).append(one)
    return DescribeAclsResponse(
        error_message="",
        resources=[
            DescribeAclsResource(
                resource_type=resource,
                resource_name=name,
                pattern_type=pattern,
                acls=[
                    AclDescription(
                        principal=one.principal,
                        host=one.host,
                        operation=one.operation,
                        permission_type=one.permission,
                    )
                    for one in bindings
                ],
            )
            for (resource, name, pattern), bindings in by_resource.items()
        ],
    )
