"""ListConfigResources: names of things that have settings."""

from __future__ import annotations

from broker_lite.wire.schema import Int8, Int16, Int32, String, message, since, struct


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    """List the resources of these types."""

    resource_types: list[Int8] = since(1, default=[])


@struct
class ConfigResource:
    resource_name: String
    resource_type: Int8 = since(1, default=16)


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    """Their types and names."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource]
