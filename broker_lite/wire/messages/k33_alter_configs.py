"""AlterConfigs: settings replaced as a whole."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int8, Int16, Int32, String, message, struct


@struct
class AlterableConfig:
    name: String
    value: String | None


@struct
class AlterConfigsResource:
    resource_type: Int8
    resource_name: String
    configs: list[AlterableConfig]


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    """Replace all settings of these resources."""

    resources: list[AlterConfigsResource]
    validate_only: Bool


@struct
class AlterConfigsResourceResponse:
    error_code: Int16 = 0
    error_message: String | None
    resource_type: Int8
    resource_name: String


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    """Per resource whether it was changed."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]
