"""A configuration key: declared once, and everything else is read off the declaration.

A `Key[T]` knows its name, its type on paper (Kafka's `ConfigDef` types), its default, its bounds and one sentence
for people.  `parse` turns text into a `T` or refuses with the text that Kafka's users know; `format` goes back.

`synonyms` names the keys that speak for this one when it is silent, strongest first: a topic's `retention.ms` falls
back on the broker's `log.retention.ms`, then `log.retention.minutes` (times 60,000), then `log.retention.hours`.

`ignored` is the reason why a key is accepted without effect; an empty reason means that the broker acts on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Generic, NamedTuple, TypeVar, cast

from broker_lite.errors import InvalidConfig
from broker_lite.shapes import dataclass, replace

T_co = TypeVar("T_co", covariant=True)

_WHOLE = re.compile(r"([+-]?)0*([0-9]{1,19})")
"""What may fit a LONG: `int` itself raises for text of more than 4,300 digits."""
_ODD = re.compile(r"[^!-~]|_")
"""What `float` takes and Java does not: digits of other scripts, 1_000."""
_COMMA = re.compile(r"\s*,\s*")


class Kind(IntEnum):
    """The types of Kafka's keys, with the numbers that DescribeConfigs uses."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Scope(Enum):
    BROKER = "broker"
    TOPIC = "topic"
    GROUP = "group"
    CLIENT_METRICS = "client metrics"


_RANGES = {
    Kind.SHORT: (-(2**15), 2**15 - 1),
    Kind.INT: (-(2**31), 2**31 - 1),
    Kind.LONG: (-(2**63), 2**63 - 1),
}
LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1


class Synonym(NamedTuple):
    """A key whose value, times `factor`, stands in for another's."""

    name: str
    factor: int = 1


def invalid(name: str, value: object, why: str) -> InvalidConfig:
    return InvalidConfig(f"Invalid value {value} for configuration {name}: {why}")


@dataclass(frozen=True, slots=True, eq=False)
class Key(Generic[T_co]):
    """One declaration; it equals nothing but itself."""

    name: str
    kind: Kind
    default: T_co
    doc: str
    scope: Scope = Scope.BROKER
    low: float | None = None
    high: float | None = None
    besides: int | None = None
    """One value that is allowed although it lies outside the bounds."""
    choices: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    """What each entry of a list has to look like."""
    pattern_says: str = ""
    dynamic: bool = False
    """May be changed while the broker runs."""
    synonyms: tuple[Synonym, ...] = ()
    ignored: str = ""
    internal: bool = False
    """It can be set, but Kafka does not tell of it."""

    @property
    def honoured(self) -> bool:
        return not self.ignored

    def parse(self, text: str) -> T_co:
        """The value that `text` spells, or InvalidConfig."""
        return cast(T_co, _PARSERS[self.kind](cast("Key[object]", self), text.strip()))

    def format(self, value: object) -> str | None:
        """The text that Kafka shows for `value`; None stays None."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        if isinstance(value, float):
            return repr(value).upper().replace("E+", "E")
        return str(value)

    def bounds(self) -> str:
        """The allowed values in Kafka's notation, empty if the type says it all."""
        if self.choices:
            return "[" + ", ".join(self.choices) + "]"
        if self.low is None and self.high is None:
            return ""
        low = "" if self.low is None else _bound(self.low)
        high = "" if self.high is None else f",{_bound(self.high)}"
        return f"[{low},...{high}]" + ("" if self.besides is None else f" or {self.besides}")

    def default_for(self, name: str) -> Key[T_co]:
        """The broker's key that gives this topic key its default: same type, bounds and default under another name."""
        about = f"Default of the topic key {self.name}. {self.doc}"
        return replace(self, name=name, scope=Scope.BROKER, doc=about, synonyms=())


def _bound(number: float) -> str:
    return f"{number:g}" if abs(number) < 1e6 else str(int(number))


def _whole(key: Key[object], text: str) -> int:
    least, most = _RANGES[key.kind]
    found = _WHOLE.fullmatch(text)
    if found is None or not least <= (value := int(found[1] + found[2])) <= most:
        raise invalid(key.name, text, f"Not a number of type {key.kind.name}")
    return int(_within(key, value))


def _real(key: Key[object], text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise invalid(key.name, text, "Not a number of type DOUBLE") from None
    if value != value or _ODD.search(text):
        raise invalid(key.name, text, "Not a number of type DOUBLE")
    return _within(key, value)


def _within(key: Key[object], value: float) -> float:
    if value == key.besides and key.besides is not None:
        return value
    if key.besides is not None and not (key.low or 0) <= value <= (key.high or 0):
        raise invalid(key.name, value, f"Value must be between {key.low} and {key.high} or equal to {key.besides}")
    if key.low is not None and value < key.low:
        raise invalid(key.name, value, f"Value must be at least {key.low}")
    if key.high is not None and value > key.high:
        raise invalid(key.name, value, f"Value must be no more than {key.high}")
    return value


def _truth(key: Key[object], text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise invalid(key.name, text, "Expected value to be either true or false")


def _text(key: Key[object], text: str) -> str:
    if key.choices and text not in key.choices:
        raise invalid(key.name, text, f"String must be one of: {', '.join(key.choices)}")
    return text


def _words(key: Key[object], text: str) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(_COMMA.split(text))) if text else ()
    if "" in words:
        raise InvalidConfig(f"Configuration '{key.name}' values must not be empty.")
    for word in words:
        if key.choices and word not in key.choices:
            raise invalid(key.name, word, f"String must be one of: {', '.join(key.choices)}")
        if key.pattern is not None and not key.pattern.fullmatch(word) and words != ("*",):
            raise invalid(key.name, f"[{', '.join(words)}]", key.pattern_says)
    return words


_PARSERS: dict[Kind, Callable[[Key[object], str], object]] = {
    Kind.BOOLEAN: _truth,
    Kind.STRING: _text,
    Kind.CLASS: _text,
    Kind.PASSWORD: _text,
    Kind.SHORT: _whole,
    Kind.INT: _whole,
    Kind.LONG: _whole,
    Kind.DOUBLE: _real,
    Kind.LIST: _words,
}


def keys_in(module: dict[str, object]) -> dict[str, Key[object]]:
    """Every key declared in a module, by name, in the order of declaration."""
    found = {value.name: value for value in module.values() if isinstance(value, Key)}
    assert len(found) == sum(isinstance(value, Key) for value in module.values()), "a key is declared twice"
    return found
