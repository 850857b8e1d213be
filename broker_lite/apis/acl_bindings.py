"""ACL bindings and filters as they travel, and what is refused of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_lite.errors import ErrorCode, InvalidRequest, refusal
from broker_lite.security.acls import CLUSTER_NAME, Binding, Filter, Operation, Pattern, Permission, Resource
from broker_lite.wire.messages.k29_describe_acls import DescribeAclsRequest
from broker_lite.wire.messages.k30_create_acls import AclCreation
from broker_lite.wire.messages.k31_delete_acls import DeleteAclsFilter

if TYPE_CHECKING:
    from broker_lite.apis.registry import Context


def require_acls(ctx: Context) -> None:
    if not ctx.broker.acls.on:
        raise refusal(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def binding_of(asked: AclCreation) -> Binding:
    try:
        resource, pattern = Resource(asked.resource_type), Pattern(asked.resource_pattern_type)
        operation, permission = Operation(asked.operation), Permission(asked.permission_type)
    except ValueError:
        raise InvalidRequest("The binding has an element that is not known.") from None
    if resource in (Resource.UNKNOWN, Resource.ANY):
        raise InvalidRequest(f"Invalid resourceType {resource.name}")
    if pattern not in (Pattern.LITERAL, Pattern.PREFIXED):
        raise InvalidRequest(f"Invalid patternType {pattern.name}")
    if operation in (Operation.UNKNOWN, Operation.ANY):
        raise InvalidRequest(f"Invalid operation {operation.name}")
    if permission not in (Permission.ALLOW, Permission.DENY):
        raise InvalidRequest(f"Invalid permissionType {permission.name}")
    if resource is Resource.CLUSTER and asked.resource_name != CLUSTER_NAME:
        raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not asked.resource_name:
        raise InvalidRequest("Invalid empty resource name")
    if ":" not in asked.principal:
        raise InvalidRequest(
            f"Could not parse principal from `{asked.principal[:200]}` (no colon is present separating the principal "
            "type from the principal name)"
        )
    if not asked.host:
        raise InvalidRequest("The host should not be empty")
    return Binding(resource, asked.resource_name, pattern, asked.principal, asked.host, operation, permission)


def filter_of(version: int, asked: DescribeAclsRequest | DeleteAclsFilter) -> Filter:
    try:
        wanted = Filter(
            resource=Resource(asked.resource_type_filter),
            name=asked.resource_name_filter,
            pattern=Pattern(asked.pattern_type_filter),
            principal=asked.principal_filter,
            host=asked.host_filter,
            operation=Operation(asked.operation),
            permission=Permission(asked.permission_type),
        )
    except ValueError:
        raise InvalidRequest("The filter has an element that is not known.") from None
    if Resource.UNKNOWN in (wanted.resource, wanted.pattern, wanted.operation, wanted.permission):
        raise InvalidRequest("The filter has an element that is not known.")
    return wanted
