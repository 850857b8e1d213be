"""CreateAcls: who may do what: allow or deny."""

from __future__ import annotations

from broker_lite.wire.schema import Int8, Int16, Int32, String, message, since, struct


@struct
class AclCreation:
    resource_type: Int8
    resource_name: String
    resource_pattern_type: Int8 = since(1, default=3)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(key=30, versions="0-3", flexible="2+")
class CreateAclsRequest:
    """Add these bindings."""

    creations: list[AclCreation]


@struct
class AclCreationResult:
    error_code: Int16 = 0
    error_message: String | None


@message(key=30, versions="0-3", flexible="2+")
class CreateAclsResponse:
    """Per binding whether it was added."""

    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult]
