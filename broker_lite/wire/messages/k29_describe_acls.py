"""DescribeAcls: who may do what: look."""

from __future__ import annotations

from broker_lite.wire.schema import Int8, Int16, Int32, String, message, since, struct


@message(key=29, versions="0-3", flexible="2+")
class DescribeAclsRequest:
    """List the bindings that match this filter."""

    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = since(1, default=3)
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


@struct
class AclDescription:
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class DescribeAclsResource:
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = since(1, default=3)
    acls: list[AclDescription]


@message(key=29, versions="0-3", flexible="2+")
class DescribeAclsResponse:
    """The matching bindings, by resource."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None
    resources: list[DescribeAclsResource]
