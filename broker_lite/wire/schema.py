"""How a message is declared: once, as a typed class, for every version it ever had.

    @message(key=26, versions="0-5", flexible="3+")
    class EndTxnResponse:
        throttle_time_ms: Int32 = 0
        error_code: Int16 = 0
        producer_id: Int64 = since(5, default=-1)

The order of the fields is their order on the wire.  A field says in which versions it exists
(all of its message's, unless `since` or `field(versions=...)` says otherwise), and what it is
where it is absent: its default.  `X | None` may be null, in all versions or in those that
`nullable` names.  A field with a `tag` travels among the tagged fields at the end.

To a type checker these are keyword-only dataclasses with slots.  Like our other dataclasses they
are compiled when the first one is made: a broker that starts in a blink cannot spend 150 ms on the
`__init__` of 365 classes of which it will use a hundred.

A default is a value, not a place: every new message gets its own list, and a default struct is
shared but refuses to be changed.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sized
from functools import cache
from typing import Annotated, Final, NamedTuple, NoReturn, TypeVar, cast, dataclass_transform

from broker_lite.shapes import MISSING, Missing, Slot, rebuilt

T = TypeVar("T")


class Wire(NamedTuple):
    """The type on the wire behind a Python type."""

    name: str


Bool = Annotated[bool, Wire("bool")]
Int8 = Annotated[int, Wire("int8")]
Int16 = Annotated[int, Wire("int16")]
Int32 = Annotated[int, Wire("int32")]
Int64 = Annotated[int, Wire("int64")]
Uint16 = Annotated[int, Wire("uint16")]
Uint32 = Annotated[int, Wire("uint32")]
Float64 = Annotated[float, Wire("float64")]
String = Annotated[str, Wire("string")]
Bytes = Annotated[bytes, Wire("bytes")]
Uuid = Annotated[bytes, Wire("uuid")]
"""Sixteen raw bytes; all zero means none."""
Records = Annotated[memoryview, Wire("records")]
"""Records in a request: a view on the frame, never a copy."""
LazyRecords = Annotated[Sized, Wire("records")]
"""Records in a response: bytes, a view, or anything with a length whose bytes somebody reads later."""

ZERO_UUID: Final = bytes(16)


class FieldSpec:
    """What a declaration says about one field beside its type."""

    __slots__ = ("default", "ignorable", "nullable", "tag", "versions")

    def __init__(
        self,
        default: object = MISSING,
        versions: str | None = None,
        nullable: str | None = None,
        tag: int | None = None,
        ignorable: bool = False,
    ) -> None:
        self.default = default
        self.versions = versions
        self.nullable = nullable
        self.tag = tag
        self.ignorable = ignorable


def field(
    *,
    default: T | Missing = MISSING,
    versions: str | None = None,
    nullable: str | None = None,
    tag: int | None = None,
    ignorable: bool = False,
) -> T:
    """A field with more to say than its type.

    `ignorable`: a request may be written at a version without this field though it has a value.
    """
    return cast(T, FieldSpec(default, versions, nullable, tag, ignorable))


def since(
    first: int,
    *,
    default: T | Missing = MISSING,
    nullable: str | None = None,
    tag: int | None = None,
    ignorable: bool = False,
) -> T:
    """A field that came with version `first` and stayed."""
    return cast(T, FieldSpec(default, f"{first}+", nullable, tag, ignorable))


class MessageSpec(NamedTuple):
    """What `@message` was told."""

    key: int | None
    versions: range
    flexible: range


def parse_versions(text: str | None, top: int) -> range:
    """`"3-12"`, `"5+"` or `"7"` as a range; nothing at all is the empty one."""
    if text is None:
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), top + 1)
    low, _, high = text.partition("-")
    return range(int(low), int(high or low) + 1)


def spec_of(cls: type) -> MessageSpec:
    """Key and versions of a message class; a struct has none of its own."""
    return cast(MessageSpec, cls.__message__)  # type: ignore[attr-defined]


def fields_of(cls: type) -> Mapping[str, FieldSpec]:
    """The declared fields of a message or struct, in the order of the wire."""
    return cast("Mapping[str, FieldSpec]", cls.__fields__)  # type: ignore[attr-defined]


def is_struct(cls: object) -> bool:
    return isinstance(cls, type) and hasattr(cls, "__fields__")


@cache
def hints_of(cls: type) -> dict[str, object]:
    """The types of the fields, resolved now: nobody pays for messages that are never used."""
    return typing.get_type_hints(cls, include_extras=True)


@dataclass_transform(kw_only_default=True, field_specifiers=(field, since))
def message(*, key: int | None, versions: str, flexible: str | None = None) -> Callable[[type[T]], type[T]]:
    """Declare a message: its API key (None for a record of a coordinator) and its versions."""

    def declare(cls: type[T]) -> type[T]:
        known = parse_versions(versions, 0)
        return _declare(cls, MessageSpec(key, known, parse_versions(flexible, known[-1])))

    return declare


@dataclass_transform(kw_only_default=True, field_specifiers=(field, since))
def struct(cls: type[T]) -> type[T]:
    """Declare a part of a message; it follows the versions of the message it is used in."""
    return _declare(cls, None)


def _declare(cls: type[T], spec: MessageSpec | None) -> type[T]:
    said = vars(cls)
    fields: dict[str, FieldSpec] = {}
    for name in said.get("__annotations__", ()):
        told = said.get(name, MISSING)
        one = fields[name] = told if isinstance(told, FieldSpec) else FieldSpec(told)
        if is_struct(type(one.default)):
            one.default = _frozen(one.default)
    extra: dict[str, object] = {"__fields__": fields, "__eq__": _eq, "__hash__": None}
    if spec is not None:
        extra["__message__"] = spec
    return rebuilt(cls, [_slot(name, one.default) for name, one in fields.items()], extra, kw_only=True)


def _slot(name: str, default: object) -> Slot:
    """A list is a default that each message has for itself."""
    return Slot(name, factory=list) if isinstance(default, list) else Slot(name, default)


def _eq(self: object, other: object) -> bool:
    mine = fields_of(type(self))
    # The same declaration, so that a shared default equals one that was made by hand.
    if not is_struct(type(other)) or fields_of(type(other)) is not mine:
        return NotImplemented  # type: ignore[no-any-return]
    return all(getattr(self, name) == getattr(other, name) for name in mine)


def _frozen(default: object) -> object:
    """The same value, of a subclass that refuses changes."""
    cls = type(default)
    default.__class__ = type(cls.__name__, (cls,), {"__slots__": (), "__setattr__": _refuse})
    return default


def _refuse(self: object, name: str, value: object) -> NoReturn:
    raise AttributeError(f"this {type(self).__name__} is a default, shared by many: make your own to set {name}")
