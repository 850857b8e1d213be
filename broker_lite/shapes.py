"""Dataclasses that are quick to declare: each method is written when it is first called.

The standard library compiles `__init__`, `__repr__`, `__eq__` and, for frozen ones, two more methods while a module is
imported: 2.6 to 4.5 million instructions a class, a fifth of the start of a broker that has some ninety of them and
makes objects of a third.  Here a declaration costs a new class with slots and nothing else; the first object compiles
`__init__`, which is then as fast as any other.  What the house uses of dataclasses is here, under their names; slots
are always on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, NoReturn, TypeVar, cast, dataclass_transform, overload

T = TypeVar("T")


class Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


class Slot(NamedTuple):
    """One field: what stands for it when it is not given."""

    name: str
    default: object = MISSING
    factory: Callable[[], object] | None = None


class _Factory(NamedTuple):
    make: Callable[[], object]


def field(*, default_factory: Callable[[], T]) -> T:
    """A field whose default is made anew for each object."""
    return cast(T, _Factory(default_factory))


@overload
def dataclass(cls: type[T], /) -> type[T]: ...
@overload
def dataclass(
    *, slots: bool = True, frozen: bool = False, eq: bool = True, kw_only: bool = False
) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(field_specifiers=(field,))
def dataclass(
    cls: type[T] | None = None, /, *, slots: bool = True, frozen: bool = False, eq: bool = True, kw_only: bool = False
) -> type[T] | Callable[[type[T]], type[T]]:
    """As `dataclasses.dataclass`: slots, whether they are asked for or not."""

    def declare(cls: type[T]) -> type[T]:
        said = vars(cls)
        made = [_slot(name, said.get(name, MISSING)) for name in said.get("__annotations__", ())]
        extra: dict[str, object] = {}
        if eq:
            extra |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
        if frozen:
            extra |= {"__setattr__": _refuse, "__delattr__": _refuse, "__getstate__": _state, "__setstate__": _restore}
        return rebuilt(cls, made, extra, kw_only=kw_only, frozen=frozen)

    return declare if cls is None else declare(cls)


def replace(one: T, /, **changes: object) -> T:
    """A copy with some fields changed."""
    kept = {slot.name: getattr(one, slot.name) for slot in slots_of(type(one)) if slot.name not in changes}
    return type(one)(**kept, **changes)


def quick(cls: type[T]) -> type[T]:
    """A plain function that makes objects of `cls`, for those who make one for every request.

    A class that is called with keyword arguments packs them into a tuple and a dict and unpacks them again: 520 ns for
    eight fields, where this takes 200.  Nothing but calls: it is no class, and `__post_init__` is not for it."""
    scope, arguments, values = _arguments(slots_of(cls))
    lines = [f"    made.{name} = {value}" for name, value in values.items()]
    head = f"def quick(*, {', '.join(arguments)}):\n    made = new(cls)\n"
    scope |= {"new": object.__new__, "cls": cls}
    exec(head + "\n".join([*lines, "    return made"]), scope)
    return cast("type[T]", scope["quick"])


def slots_of(cls: type) -> tuple[Slot, ...]:
    return cast("tuple[Slot, ...]", cls.__shape__)  # type: ignore[attr-defined]


def rebuilt(
    cls: type[T], slots: list[Slot], extra: dict[str, object], *, kw_only: bool = False, frozen: bool = False
) -> type[T]:
    """The class once more, with slots, and with an `__init__` that compiles itself when it is called."""
    names = tuple(slot.name for slot in slots)
    body = {name: value for name, value in cls.__dict__.items() if name not in names}
    body.pop("__dict__", None)
    body.pop("__weakref__", None)

    def first(self: object, *values: object, **named: object) -> None:
        init = _compiled(cls.__qualname__, slots, kw_only=kw_only, frozen=frozen, more=hasattr(cls, "__post_init__"))
        type.__setattr__(made, "__init__", init)
        init(self, *values, **named)

    extra = {"__repr__": _repr, **extra}
    body |= {name: value for name, value in extra.items() if name not in cls.__dict__ or name == "__hash__"}
    body |= {"__slots__": names, "__shape__": tuple(slots), "__init__": first}
    body["__match_args__"] = () if kw_only else names
    made = cast("type[T]", type(cls.__name__, cls.__bases__, body))
    return made


def _slot(name: str, given: object) -> Slot:
    if isinstance(given, _Factory):
        return Slot(name, factory=given.make)
    if isinstance(given, list | dict | set):
        raise TypeError(f"the default of {name} would be shared by all: use field(default_factory=…)")
    return Slot(name, given)


def _compiled(owner: str, slots: list[Slot], *, kw_only: bool, frozen: bool, more: bool) -> Callable[..., None]:
    scope, arguments, values = _arguments(slots)
    form = "    put(self, {0!r}, {1})" if frozen else "    self.{0} = {1}"
    body = [form.format(name, value) for name, value in values.items()]
    if more:
        body.append("    self.__post_init__()")
    star = "*, " if kw_only and arguments else ""
    exec(f"def __init__(self, {star}{', '.join(arguments)}):\n" + ("\n".join(body) or "    pass"), scope)
    init = cast("Callable[..., None]", scope["__init__"])
    init.__qualname__ = f"{owner}.__init__"
    return init


def _arguments(slots: Iterable[Slot]) -> tuple[dict[str, object], list[str], dict[str, str]]:
    """The names that the source of a constructor speaks of, its arguments, and the value of each field."""
    scope: dict[str, object] = {"MISSING": MISSING, "put": object.__setattr__}
    arguments, values = [], {}
    for name, default, factory in slots:
        values[name] = name
        if factory is not None:
            scope[f"make_{name}"] = factory
            arguments.append(f"{name}=MISSING")
            values[name] = f"make_{name}() if {name} is MISSING else {name}"
        elif default is not MISSING:
            scope[f"default_{name}"] = default
            arguments.append(f"{name}=default_{name}")
        else:
            arguments.append(name)
    return scope, arguments, values


def _repr(self: object) -> str:
    values = ", ".join(f"{slot.name}={getattr(self, slot.name)!r}" for slot in slots_of(type(self)))
    return f"{type(self).__qualname__}({values})"


def _values(self: object) -> tuple[object, ...]:
    return tuple(getattr(self, slot.name) for slot in slots_of(type(self)))


def _eq(self: object, other: object) -> bool:
    if type(other) is not type(self):
        return NotImplemented  # type: ignore[no-any-return]
    return _values(self) == _values(other)


def _hash(self: object) -> int:
    return hash(_values(self))


def _refuse(self: object, name: str, *_: object) -> NoReturn:
    raise AttributeError(f"cannot change field {name!r} of a frozen {type(self).__name__}")


def _state(self: object) -> tuple[object, ...]:
    """For a copy, which cannot set the fields of a frozen object one by one."""
    return _values(self)


def _restore(self: object, values: tuple[object, ...]) -> None:
    for slot, value in zip(slots_of(type(self)), values, strict=True):
        object.__setattr__(self, slot.name, value)
