"""A declaration seen at one version: which fields are there, in which form.

The codec writes its code from this and the tests compare this with Kafka's own definitions, so
neither has to know how versions are written down.
"""

from __future__ import annotations

import types
import typing
from typing import Final

from broker_lite.shapes import MISSING, dataclass
from broker_lite.wire.schema import (
    ZERO_UUID,
    FieldSpec,
    Wire,
    fields_of,
    hints_of,
    is_struct,
    parse_versions,
    spec_of,
)

FIXED: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "uuid": "16s",
}
"""Types of fixed size, as `struct` spells them."""

SIZE: Final = {"bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint16": 2, "uint32": 4} | {
    "float64": 8,
    "uuid": 16,
}

UNIT: Final = 200
"""Bytes of memory that one element of the budget stands for."""

_ZERO: Final[dict[str, object]] = {"bool": False, "float64": 0.0, "string": "", "bytes": b"", "uuid": ZERO_UUID}
_MEMORY: Final = {"string": 56, "bytes": 40, "uuid": 56, "records": 192, "bool": 0, "float64": 24}


@dataclass(slots=True)
class Scalar:
    name: str


@dataclass(slots=True)
class Array:
    element: Scalar | Struct


@dataclass(slots=True)
class Struct:
    cls: type
    slots: list[Slot]
    flexible: bool

    def tagged(self) -> list[Slot]:
        return sorted((s for s in self.slots if s.present and s.tag is not None), key=lambda s: s.tag or 0)

    def plain(self) -> list[Slot]:
        return [s for s in self.slots if s.present and s.tag is None]

    def absent(self) -> list[Slot]:
        return [s for s in self.slots if not s.present]


Type = Scalar | Array | Struct


@dataclass(slots=True)
class Slot:
    """One field at one version."""

    name: str
    type: Type
    present: bool
    nullable: bool
    tag: int | None
    default: object
    ignorable: bool


def layout(cls: type, version: int) -> Struct:
    """What `cls` looks like at `version`; ValueError if it has no such version."""
    spec = spec_of(cls)
    if version not in spec.versions:
        raise ValueError(f"{cls.__name__} has versions {spec.versions[0]} to {spec.versions[-1]}, not {version}")
    return _struct(cls, version, spec.versions[-1], version in spec.flexible)


def _struct(cls: type, version: int, top: int, flexible: bool) -> Struct:
    hints = hints_of(cls)
    slots = [_slot(name, hints[name], one, version, top, flexible) for name, one in fields_of(cls).items()]
    return Struct(cls, slots, flexible)


def _slot(name: str, hint: object, one: FieldSpec, version: int, top: int, flexible: bool) -> Slot:
    present = one.versions is None or version in parse_versions(one.versions, top)
    hint, nullable = _without_none(hint)
    kind = _type(hint, version, top, flexible)
    if one.nullable is not None:
        nullable = version in parse_versions(one.nullable, top)
    assert one.tag is None or flexible or not present, f"{name} has a tag at version {version}, which is not flexible"
    default = _zero(kind) if one.default is MISSING else one.default
    return Slot(name, kind, present, nullable, one.tag, default, one.ignorable)


def _without_none(hint: object) -> tuple[object, bool]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = [part for part in typing.get_args(hint) if part is not type(None)]
        assert len(inner) == 1, f"{hint} is not one type or None"
        return inner[0], True
    return hint, False


def _type(hint: object, version: int, top: int, flexible: bool) -> Type:
    if typing.get_origin(hint) is list:
        element = _type(typing.get_args(hint)[0], version, top, flexible)
        assert not isinstance(element, Array), "Kafka has no arrays of arrays"
        return Array(element)
    if isinstance(hint, type) and is_struct(hint):
        return _struct(hint, version, top, flexible)
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, Wire):
            return Scalar(mark.name)
    raise TypeError(f"{hint} has no form on the wire")


def _zero(kind: Type) -> object:
    match kind:
        case Array():
            return []
        case Scalar("records") | Struct():
            return None
        case Scalar(name):
            return _ZERO.get(name, 0)


def least_size(kind: Type, flexible: bool, nullable: bool = False) -> int:
    """The fewest bytes that can stand for one of these; a count promising more is a lie."""
    match kind:
        case Scalar(name) if name in SIZE:
            return SIZE[name]
        case Scalar("string"):
            return 1 if flexible else 2
        case Struct():
            fields = sum(least_size(s.type, flexible, s.nullable) for s in kind.plain())
            return 1 if nullable else fields + flexible
        case _:
            return 1 if flexible else 4


def weight(kind: Type) -> int:
    """How much of the budget one array element of this type takes, by what it takes in memory."""
    return -(-(8 + _memory(kind)) // UNIT)


def _memory(kind: Type) -> int:
    match kind:
        case Array():
            return 64
        case Struct():
            return 40 + sum(
                8 + (_memory(s.type) if s.present or isinstance(s.default, list) else 0) for s in kind.slots
            )
        case Scalar(name):
            return _MEMORY.get(name, 32)
