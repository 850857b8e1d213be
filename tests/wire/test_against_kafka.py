"""Our declarations are Kafka's, field by field: order, name, type, nullability, tag, default, ignorability.

Versions that Kafka 4 still has are compared with 4.3.1, those it dropped with 3.9.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from broker_lite.wire.layout import Array, Scalar, Slot, Struct, layout
from broker_lite.wire.schema import spec_of
from tests.wire.definitions import BEFORE_4, NEWEST, Line, definitions, lines, snake, versions
from tests.wire.samples import EVERY_MESSAGE, EVERY_VERSION, NAMES

pytestmark = pytest.mark.kafka


def ours(shape: Struct, prefix: str = "") -> Iterator[Line]:
    for slot in shape.slots:
        if not slot.present:
            continue
        path, kind = prefix + slot.name, slot.type
        yield Line(path, spelled(kind), slot.nullable, -1 if slot.tag is None else slot.tag, default(slot))
        inner = kind.element if isinstance(kind, Array) else kind
        if isinstance(inner, Struct):
            yield from ours(inner, path + ".")


def spelled(kind: Scalar | Array | Struct) -> str:
    match kind:
        case Scalar(name):
            return name
        case Array(element):
            return "[]" + spelled(element)
        case Struct(cls):
            return cls.__name__


def default(slot: Slot) -> str:
    if isinstance(slot.type, Struct):
        if slot.default is None:
            return "None" if slot.nullable else "its own"
        return "its own" if slot.default == slot.type.cls() else repr(slot.default)
    return repr(slot.default)


def definition(cls: type, version: int) -> Mapping[str, Any]:
    newest: Mapping[str, Any] = definitions(NEWEST)[cls.__name__]
    if version in versions(newest["validVersions"]):
        return newest
    older: Mapping[str, Any] = definitions(BEFORE_4)[cls.__name__]
    return older


def same_names(line: Line) -> Line:
    """Where a response's struct has the name of one in its request, ours ends in Result."""
    renamed = line.type.removesuffix("Result") if line.type.removeprefix("[]") in RENAMED else line.type
    return Line(line.path, renamed, line.nullable, line.tag, line.default)


RENAMED = {
    "CursorResult",
    "EndpointResult",
    "EntityDataResult",
    "EntryDataResult",
    "PartitionDataResult",
    "TaskIdsResult",
    "TopicDataResult",
    "TopicPartitionsResult",
}


@pytest.mark.parametrize(("cls", "version"), EVERY_VERSION, ids=NAMES)
def test_every_field_is_as_kafka_defines_it(cls: type, version: int) -> None:
    told = definition(cls, version)
    assert version in versions(told["validVersions"])
    assert spec_of(cls).key == told["apiKey"]
    assert (version in spec_of(cls).flexible) == (version in versions(told.get("flexibleVersions")))
    assert [same_names(line) for line in ours(layout(cls, version))] == lines(told, version)


@pytest.mark.parametrize("cls", EVERY_MESSAGE, ids=lambda cls: cls.__name__)
def test_we_know_every_version_that_kafka_serves(cls: type) -> None:
    served = versions(definitions(NEWEST)[cls.__name__]["validVersions"])
    assert set(served) <= set(spec_of(cls).versions)


@pytest.mark.parametrize(
    "cls", [cls for cls in EVERY_MESSAGE if cls.__name__.endswith("Request")], ids=lambda cls: cls.__name__
)
def test_a_request_may_lose_exactly_what_kafka_may_lose(cls: type) -> None:
    """Checked where it matters: for fields that some version does not have."""
    for version in spec_of(cls).versions:
        may_lose = dict(_ignorable(definition(cls, version)["fields"], ""))
        for path, slot in _absent(layout(cls, version), ""):
            if path in may_lose:
                assert slot.ignorable == may_lose[path], f"{path} at version {version}"


def _ignorable(fields: list[Any], prefix: str) -> Iterator[tuple[str, bool]]:
    for one in fields:
        path = prefix + snake(one["name"])
        yield path, one.get("ignorable", False)
        yield from _ignorable(one.get("fields", []), path + ".")


def _absent(shape: Struct, prefix: str) -> Iterator[tuple[str, Slot]]:
    for slot in shape.slots:
        if not slot.present:
            yield prefix + slot.name, slot
            continue
        inner = slot.type.element if isinstance(slot.type, Array) else slot.type
        if isinstance(inner, Struct):
            yield from _absent(inner, f"{prefix}{slot.name}.")
