"""AlterClientQuotas: client quotas: change."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Float64, Int16, Int32, String, message, struct


@struct
class EntityData:
    entity_type: String
    entity_name: String | None


@struct
class OpData:
    key: String
    value: Float64
    remove: Bool


@struct
class EntryData:
    entity: list[EntityData]
    ops: list[OpData]


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    """Set or remove these limits."""

    entries: list[EntryData]
    validate_only: Bool


@struct
class EntityDataResult:
    entity_type: String
    entity_name: String | None


@struct
class EntryDataResult:
    error_code: Int16 = 0
    error_message: String | None
    entity: list[EntityDataResult]


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    """Per entity whether it was changed."""

    throttle_time_ms: Int32 = 0
    entries: list[EntryDataResult]
