"""DescribeClientQuotas: the limits of the entities that match a filter.

Versions
    1    flexible
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum

from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.broker.quotas import CLIENT, IP, USER, Entity
from broker_lite.errors import BrokerError, InvalidRequest, UnsupportedVersion
from broker_lite.wire.messages.k48_describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


class Match(IntEnum):
    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


Test = Callable[[str | None], bool]
Limit = tuple[str, float]

_UP_TO_THREE = ("consumer_byte_rate", "controller_mutation_rate", "request_percentage", "producer_byte_rate")
_FOUR = ("producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate", "request_percentage")
"""The order in which Kafka tells the limits of one entity: that of a hash table of their number.  Clients keep it."""


def _refused(ctx: Context, req: DescribeClientQuotasRequest, error: BrokerError) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)


@serves(DescribeClientQuotasRequest, versions="0-1", refuse=_refused)
def describe_client_quotas(ctx: Context, req: DescribeClientQuotasRequest) -> Steps[DescribeClientQuotasResponse]:
    tests: dict[str, Test] = {}
    for component in req.components:
        _check_kind(component.entity_type, tests)
        tests[component.entity_type] = _test(component)
    if IP in tests and len(tests) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )
    entries: list[EntryData] = []
    for entity, limits in list(ctx.broker.quotas):
        if _fits(entity, tests, strict=req.strict):
            yield 1 + len(entity) + len(limits)
            values = [ValueData(key=key, value=limit) for key, limit in sorted(limits.items(), key=_place(limits))]
            entries.append(
                EntryData(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity], values=values
                )
            )
    return DescribeClientQuotasResponse(error_message="", entries=entries)


def _place(limits: Mapping[str, float]) -> Callable[[Limit], tuple[int, str]]:
    order = _UP_TO_THREE if len(limits) < len(_FOUR) else _FOUR
    return lambda limit: (order.index(limit[0]) if limit[0] in order else len(order), limit[0])


def _check_kind(kind: str, seen: dict[str, Test]) -> None:
    if not kind:
        raise InvalidRequest("Invalid empty entity type.")
    if kind in seen:
        raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in (USER, CLIENT, IP):
        raise UnsupportedVersion(f"Unsupported entity type {kind}")


def _test(component: ComponentData) -> Test:
    wanted = component.match
    if component.match_type not in list(Match):
        raise InvalidRequest(f"Unknown match type {component.match_type}")
    how = Match(component.match_type)
    if how is Match.EXACT:
        if wanted is None:
            raise InvalidRequest("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        return lambda name: name == wanted
    if wanted is not None:
        raise InvalidRequest(f"Request specified MATCH_TYPE_{how.name}, but also specified a match string.")
    return (lambda name: name is None) if how is Match.DEFAULT else (lambda name: True)


def _fits(entity: Entity, tests: dict[str, Test], *, strict: bool) -> bool:
    names = dict(entity)
    if strict and len(names) != len(tests):
        return False
    return all(kind in names and fits(names[kind]) for kind, fits in tests.items())
