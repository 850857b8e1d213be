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

To a type checker these are keyword-only dataclasses with slots.  They are made by hand here and
not by `dataclasses`, because a broker that starts in a blink cannot spend 150 ms on compiling the
`__init__` of 365 classes of which it will use a hundred: ours is compiled when the first one is
made, and importing every message there is takes 25 ms.

A default is a value, not a place: every new message gets its own list, and a default struct is
shared but refuses to be changed.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sized
from functools import cache
from typing import Annotated, Final, NamedTuple, NoReturn, TypeVar, cast, dataclass_transform

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


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


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
    default: T | _Missing = MISSING,
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
    default: T | _Missing = MISSING,
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
    body = dict(cls.__dict__)
    names = tuple(body.get("__annotations__", ()))
    fields: dict[str, FieldSpec] = {}
    for name in names:
        told = body.pop(name, MISSING)
        one = fields[name] = told if isinstance(told, FieldSpec) else FieldSpec(told)
        if is_struct(type(one.default)):
            one.default = _frozen(one.default)
    body.pop("__dict__", None)
    body.pop("__weakref__", None)
    body |= {
        "__slots__": names,
        "__fields__": fields,
        "__init__": _first_init,
        "__repr__": _repr,
        "__eq__": _eq,
        "__hash__": None,
    }
    if spec is not None:
        body["__message__"] = spec
    return cast(type[T], type(cls.__name__, (), body))


def _first_init(self: object, **values: object) -> None:
    """The `__init__` of a class nobody has made yet: compile the real one, then be it."""
    cls = type(self)
    init = _compile_init(cls)
    type.__setattr__(cls, "__init__", init)
    init(self, **values)


def _compile_init(cls: type) -> Callable[..., None]:
    arguments, body = [], []
    scope: dict[str, object] = {"MISSING": MISSING}
    for name, one in fields_of(cls).items():
        value = name
        if one.default is MISSING:
            arguments.append(name)
        elif isinstance(one.default, list):
            arguments.append(f"{name}=MISSING")
            value = f"[] if {name} is MISSING else {name}"
        else:
            scope[f"default_{name}"] = one.default
            arguments.append(f"{name}=default_{name}")
        body.append(f"    self.{name} = {value}")
    star = "*, " if arguments else ""
    source = f"def __init__(self, {star}{', '.join(arguments)}):\n" + ("\n".join(body) or "    pass")
    exec(source, scope)
    init = cast("Callable[..., None]", scope["__init__"])
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _repr(self: object) -> str:
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in fields_of(type(self)))
    return f"{type(self).__name__}({values})"


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
