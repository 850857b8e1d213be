"""Requests that name one thing as often as a message may: made from the declarations, one for each array of each API.

A sample of a message has one element in every array, and names what `catalogue.py` has made: its topic, its group, its
transaction.  Then one array at a time is filled with copies of its element, up to what a request may hold; the arrays
inside of that element hold one element, or are null, which in most messages means "all".
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from broker_lite.apis.routes import Served
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.wire.codec import BUDGET
from broker_lite.wire.layout import Array, Scalar, Slot, Struct, Type, layout, weight

TOPIC, GROUP, TXN, USER, FEATURE = "orders", "readers", "writer", "alice", "metadata.version"

BY_NAME: dict[str, object] = {
    "topic_names": TOPIC,
    "topics": TOPIC,
    "name": TOPIC,
    "topic": TOPIC,
    "topic_name": TOPIC,
    "resource_name": TOPIC,
    "resource_name_filter": None,
    "resource_type": 2,
    "resource_types": 2,
    "resource_type_filter": 1,
    "resource_pattern_type": 3,
    "pattern_type_filter": 1,
    "principal": "User:alice",
    "principal_filter": None,
    "host": "*",
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
    "group_id": GROUP,
    "groups": f"{GROUP}-classic",
    "groups_names": GROUP,
    "group_ids": f"{GROUP}-new",
    "coordinator_keys": GROUP,
    "key": GROUP,
    "transactional_id": TXN,
    "transactional_ids": TXN,
    "v3_and_below_transactional_id": TXN,
    "transactional_id_pattern": None,
    "entity_type": "user",
    "entity_name": USER,
    "match": USER,
    "feature": FEATURE,
    "path": "/somewhere",
    "configuration_keys": "retention.ms",
    "timeout_ms": 1000,
    "max_wait_ms": 0,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 10,
    "response_partition_limit": 2000,
    "replica_id": -1,
    "acks": -1,
    "num_partitions": -1,
    "replication_factor": -1,
    "current_leader_epoch": -1,
    "max_num_offsets": 100,
    "timestamp": 1,
    "mechanism": "PLAIN",
    "topic_partitions": None,
    "duration_filter": -1,
    "session_epoch": -1,
    "generation_id_or_member_epoch": -1,
    "member_epoch": -1,
    "generation_id": -1,
    "producer_id": 0,
    "include_synonyms": True,
    "include_documentation": True,
    "validate_only": True,
}
"""What a field is called, and what it says. The rest is zero, or empty."""


@dataclass(frozen=True)
class Repeated:
    """One request of which one array is full."""

    api: Served
    version: int
    path: tuple[str, ...]
    inside: str
    """What is in the arrays of the element: `one`, or `null` where they may be."""
    count: int

    def __str__(self) -> str:
        return f"{self.api.name}-v{self.version}-{'.'.join(self.path)}-{self.inside}"

    def request(self, topic_id: bytes) -> object:
        form = layout(self.api.request, self.version)
        whole = _sample(form, topic_id)
        holder: Any = whole
        for step in self.path[:-1]:
            inner = getattr(holder, step)
            holder = inner[0] if isinstance(inner, list) else inner
        elements = getattr(holder, self.path[-1])
        if self.inside == "null":
            _nullify(elements[0], _element(form, self.path))
        setattr(holder, self.path[-1], [copy.copy(elements[0]) for _ in range(self.count)])
        return whole


def repeated(api: Served, version: int, *, most: int = BUDGET) -> Iterator[Repeated]:
    for path, element in _arrays(layout(api.request, version)):
        # A hundred elements less, for those on the way there.
        yield Repeated(api, version, path, "one", max(1, (most - 100) // _cost(element)))
        if isinstance(element, Struct) and any(_may_be_all(slot) for slot in element.slots):
            yield Repeated(api, version, path, "null", max(1, (most - 100) // _cost(element, null=True)))


def _arrays(form: Struct, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Scalar | Struct]]:
    for slot in form.slots:
        if not slot.present:
            continue
        here = (*path, slot.name)
        if isinstance(slot.type, Array):
            yield here, slot.type.element
            if isinstance(slot.type.element, Struct):
                yield from _arrays(slot.type.element, here)
        elif isinstance(slot.type, Struct):
            yield from _arrays(slot.type, here)


def _cost(element: Scalar | Struct, *, null: bool = False) -> int:
    """What one element takes of a request's budget, with one element in each of its arrays."""
    cost = weight(element)
    for slot in element.slots if isinstance(element, Struct) else ():
        if slot.present and isinstance(slot.type, Array) and not (null and slot.nullable):
            cost += _cost(slot.type.element)
    return cost


def _element(form: Struct, path: tuple[str, ...]) -> Struct:
    kind: Type = form
    for step in path:
        assert isinstance(kind, Struct)
        kind = next(slot.type for slot in kind.slots if slot.name == step)
        if isinstance(kind, Array):
            kind = kind.element
    assert isinstance(kind, Struct)
    return kind


def _may_be_all(slot: Slot) -> bool:
    return slot.present and slot.nullable and isinstance(slot.type, Array)


def _nullify(element: object, form: Struct) -> None:
    for slot in form.slots:
        if _may_be_all(slot):
            setattr(element, slot.name, None)


def _sample(form: Struct, topic_id: bytes) -> object:
    values: dict[str, object] = {}
    for slot in form.slots:
        if not slot.present:
            values[slot.name] = [] if isinstance(slot.default, list) else slot.default
        elif isinstance(slot.type, Array) and not isinstance(slot.type.element, Struct):
            values[slot.name] = [_scalar(slot, slot.type.element, topic_id)]
        elif isinstance(slot.type, Array):
            assert isinstance(slot.type.element, Struct)
            values[slot.name] = [_sample(slot.type.element, topic_id)]
        elif isinstance(slot.type, Struct):
            values[slot.name] = None if slot.nullable else _sample(slot.type, topic_id)
        else:
            values[slot.name] = _scalar(slot, slot.type, topic_id)
    made: object = form.cls(**values)
    return made


def _scalar(slot: Slot, kind: Scalar, topic_id: bytes) -> object:
    zero: object = {"string": "", "bytes": b"", "uuid": topic_id, "bool": False, "float64": 1.0}.get(kind.name, 0)
    if kind.name == "records":
        return memoryview(bytes(build_batch([NewRecord(key=None, value=b"v")], timestamp=0)))
    said = BY_NAME.get(slot.name, zero)
    fits = isinstance(said, str) == (kind.name == "string") and (said is not None or slot.nullable)
    return said if fits or (said is None and slot.nullable) else zero
