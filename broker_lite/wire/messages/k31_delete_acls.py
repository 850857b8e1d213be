"""DeleteAcls: who may do what: withdraw."""

from __future__ import annotations

from broker_lite.wire.schema import Int8, Int16, Int32, String, message, since, struct


@struct
class DeleteAclsFilter:
    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = since(1, default=3)
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


@message(key=31, versions="0-3", flexible="2+")
class DeleteAclsRequest:
    """Remove every binding that matches one of these filters."""

    filters: list[DeleteAclsFilter]


@struct
class DeleteAclsMatchingAcl:
    error_code: Int16 = 0
    error_message: String | None
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = since(1, default=3)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class DeleteAclsFilterResult:
    error_code: Int16 = 0
    error_message: String | None
    matching_acls: list[DeleteAclsMatchingAcl]


@message(key=31, versions="0-3", flexible="2+")
class DeleteAclsResponse:
    """The bindings that each filter removed."""

    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult]
