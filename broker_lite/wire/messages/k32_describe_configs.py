"""DescribeConfigs: settings and where they come from."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int8, Int16, Int32, String, field, message, since, struct


@struct
class DescribeConfigsResource:
    resource_type: Int8
    resource_name: String
    configuration_keys: list[String] | None


@message(key=32, versions="0-4", flexible="4+")
class DescribeConfigsRequest:
    """Show the settings of these resources."""

    resources: list[DescribeConfigsResource]
    include_synonyms: Bool = since(1, default=False)
    include_documentation: Bool = since(3, default=False)


@struct
class DescribeConfigsSynonym:
    name: String
    value: String | None
    source: Int8


@struct
class DescribeConfigsResourceResult:
    name: String
    value: String | None
    read_only: Bool
    is_default: Bool = field(versions="0", default=False)
    config_source: Int8 = since(1, default=-1)
    is_sensitive: Bool
    synonyms: list[DescribeConfigsSynonym] = since(1, default=[])
    config_type: Int8 = since(3, default=0)
    documentation: String | None = since(3, default="")


@struct
class DescribeConfigsResult:
    error_code: Int16 = 0
    error_message: String | None
    resource_type: Int8
    resource_name: String
    configs: list[DescribeConfigsResourceResult]


@message(key=32, versions="0-4", flexible="4+")
class DescribeConfigsResponse:
    """Per resource the settings with source and type."""

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult]
