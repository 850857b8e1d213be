"""AlterClientQuotas: set and remove limits.

Versions
    1    flexible
"""

from __future__ import annotations

import ipaddress
from collections import Counter

from broker_lite.apis.registry import Context, serves
from broker_lite.broker.quotas import CLIENT, IP, KEYS, USER, WHOLE, Entity, entity_of
from broker_lite.errors import BrokerError, InvalidRequest
from broker_lite.wire.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityDataResult,
    EntryData,
    EntryDataResult,
    OpData,
)

_LONG_MAX = 2**63 - 1


@serves(AlterClientQuotasRequest, versions="0-1")
def alter_client_quotas(ctx: Context, req: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    entities = [entity_of({part.entity_type: part.entity_name for part in entry.entity}) for entry in req.entries]
    times = Counter(entities)
    asked = dict(zip(entities, req.entries, strict=True))
    return AlterClientQuotasResponse(
        entries=[
            _alter(ctx, entity, entry, times[entity], validate_only=req.validate_only)
            for entity, entry in asked.items()
        ]
    )


def _alter(ctx: Context, entity: Entity, entry: EntryData, times: int, *, validate_only: bool) -> EntryDataResult:
    result = EntryDataResult(
        error_message=None, entity=[EntityDataResult(entity_type=kind, entity_name=name) for kind, name in entity]
    )
    try:
        if times > 1 or len({op.key for op in entry.ops}) != len(entry.ops):
            shown = ", ".join(f"{kind}={'<default>' if name is None else name}" for kind, name in entity)
            raise InvalidRequest(f"Ignoring duplicate entity ClientQuotaEntity(entries={{{shown}}})")
        limits = _limits(ctx, entity, entry.ops)
        if not validate_only:
            ctx.broker.quotas.set(entity, limits)
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.message
    return result


def _limits(ctx: Context, entity: Entity, ops: list[OpData]) -> dict[str, float]:
    kinds = [kind for kind, _ in entity]
    _check_entity(entity, kinds)
    allowed = KEYS[IP] if IP in kinds else KEYS[USER]
    limits = ctx.broker.quotas.of(entity)
    for op in ops:
        if op.remove:
            limits.pop(op.key, None)
            continue
        if op.key not in allowed:
            raise InvalidRequest(f"Invalid configuration key {op.key}")
        if op.value <= 0:
            raise InvalidRequest(f"Quota {op.key} must be greater than 0")
        if op.key in WHOLE:
            if op.value > _LONG_MAX:
                raise InvalidRequest(f"Proposed value for {op.key} is too large for a LONG.")
            if op.value != op.value // 1:
                raise InvalidRequest(f"{op.key} cannot be a fractional value.")
        limits[op.key] = op.value
    return limits


def _check_entity(entity: Entity, kinds: list[str]) -> None:
    if not entity:
        raise InvalidRequest("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in (USER, CLIENT, IP):
            raise InvalidRequest(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequest(f"Empty {kind} not supported")
    if IP in kinds and len(kinds) > 1:
        raise InvalidRequest("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    address = dict(entity).get(IP)
    if address is not None:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise InvalidRequest(f"{address} is not a valid IP or resolvable host.") from None
