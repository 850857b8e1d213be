"""DescribeClientQuotas: client quotas: look."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Float64, Int8, Int16, Int32, String, message, struct


@struct
class ComponentData:
    entity_type: String
    match_type: Int8
    match: String | None


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    """Show the quotas of the entities that match."""

    components: list[ComponentData]
    strict: Bool


@struct
class EntityData:
    entity_type: String
    entity_name: String | None


@struct
class ValueData:
    key: String
    value: Float64


@struct
class EntryData:
    entity: list[EntityData]
    values: list[ValueData]


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    """The matching entities with their limits."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None
    entries: list[EntryData] | None
