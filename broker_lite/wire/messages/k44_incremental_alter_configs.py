"""IncrementalAlterConfigs: settings changed one by one."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int8, Int16, Int32, String, message, struct


@struct
class AlterableConfig:
    name: String
    config_operation: Int8
    value: String | None


@struct
class AlterConfigsResource:
    resource_type: Int8
    resource_name: String
    configs: list[AlterableConfig]


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    """Set, delete, append to or subtract from single settings."""

    resources: list[AlterConfigsResource]
    validate_only: Bool


@struct
class AlterConfigsResourceResponse:
    error_code: Int16 = 0
    error_message: String | None
    resource_type: Int8
    resource_name: String


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    """Per resource whether it was changed."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]
