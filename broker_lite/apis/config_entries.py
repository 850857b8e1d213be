"""Configuration as answers show it: value, where it came from, and who else had a word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from broker_lite.config.broker import BROKER_KEYS
from broker_lite.config.kept import kept_keys
from broker_lite.config.key import Key, Kind, Scope
from broker_lite.config.resources import KEYS
from broker_lite.config.sources import Settings, Source, Spoken, TopicSettings
from broker_lite.config.topic import TOPIC_KEYS
from broker_lite.shapes import dataclass, field

_WIRE_SOURCE = {
    Source.TOPIC: 1,
    Source.DYNAMIC_BROKER: 2,
    Source.DYNAMIC_CLUSTER: 3,
    Source.FLAG: 4,
    Source.ENVIRONMENT: 4,
    Source.FILE: 4,
    Source.DEFAULT: 5,
    Source.CLIENT_METRICS: 7,
    Source.GROUP: 8,
}
LOGGER_SOURCE = 6
STATIC_SOURCE = _WIRE_SOURCE[Source.FILE]
_UNKNOWN_TYPE = 0
_STAND_INS = {
    key.synonyms[0].name: tuple(synonym.name for synonym in key.synonyms)
    for key in TOPIC_KEYS.values()
    if len(key.synonyms) > 1
}
"""Keys of the broker for which others speak: `log.retention.hours` for `log.retention.ms`."""


@dataclass(frozen=True, slots=True)
class Said:
    """One source's word, in the numbers of the wire."""

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    value: str | None
    source: int
    sensitive: bool = False
    read_only: bool = False
    kind: int = _UNKNOWN_TYPE
    doc: str = ""
    synonyms: list[Said] = field(default_factory=list)


def topic_entries(settings: TopicSettings) -> Iterator[Entry]:
    """Every key that a topic can have, or a group or a client metrics subscription, in the order of their names."""
    for name, key in sorted(KEYS[settings.scope].items()):
        words = settings.own(key)
        if key.internal and not words:
            continue
        if key.synonyms:
            first = key.synonyms[0].name
            words += _from(first, settings.broker.words(_STAND_INS.get(first, (first,))))
        elif settings.scope is Scope.GROUP:
            above = f"group.{name}"
            words.append(Spoken(above if above in kept_keys() else name, key.format(key.default), Source.DEFAULT))
        yield _entry(name, key, settings.get(key), words)


def broker_entries(settings: Settings, dynamic: Mapping[str, str]) -> Iterator[Entry]:
    """Every key of the broker, and what was set while running under names that we have no declaration for."""
    declared = kept_keys() | BROKER_KEYS
    for name, key in sorted(declared.items()):
        if key.internal:
            continue
        words = _from(name, settings.words(_STAND_INS.get(name, (name,))))
        value = settings.get(key) if name in BROKER_KEYS else _said(key, words)
        yield _entry(name, key, value, words, read_only=not key.dynamic)
    for name in dynamic:
        if name not in declared:
            yield _foreign(name, Source.DYNAMIC_BROKER)


def default_broker_entries(texts: Mapping[str, str]) -> Iterator[Entry]:
    """What was set for all brokers."""
    for name, text in sorted(texts.items()):
        key = BROKER_KEYS.get(name) or kept_keys().get(name)
        if key is None:
            yield _foreign(name, Source.DYNAMIC_CLUSTER)
        else:
            yield _entry(name, key, key.parse(text), [Spoken(name, text, Source.DYNAMIC_CLUSTER)])


def _said(key: Key[object], words: list[Spoken]) -> object:
    """The strongest word on a key that nobody here reads."""
    return key.parse(words[0].value) if words and words[0].value is not None else None


def _from(name: str, words: list[Spoken]) -> list[Spoken]:
    """Kafka leaves out those who stand in for `name` before it has spoken itself."""
    start = next((at for at, word in enumerate(words) if word.name == name), len(words))
    static = {word.name for word in words[:start]}
    kept: list[Spoken] = []
    for word in words[start:]:
        if word.source in (Source.FLAG, Source.ENVIRONMENT, Source.FILE):
            if word.name in static:
                continue  # flags, environment and file are one source to a client
            static.add(word.name)
        kept.append(word)
    return kept


def _entry(name: str, key: Key[object], value: object, words: list[Spoken], *, read_only: bool = False) -> Entry:
    sensitive = key.kind is Kind.PASSWORD
    return Entry(
        name,
        None if sensitive else key.format(value),
        _WIRE_SOURCE[words[0].source if words else Source.DEFAULT],
        sensitive=sensitive,
        read_only=read_only,
        kind=key.kind,
        doc=key.doc if key.honoured else f"{key.doc} Accepted without effect: {key.ignored}.",
        synonyms=[Said(word.name, None if sensitive else word.value, _WIRE_SOURCE[word.source]) for word in words],
    )


def _foreign(name: str, source: Source) -> Entry:
    """Kafka takes what it does not know for a secret, and for something that does not change while running."""
    said = _WIRE_SOURCE[source]
    return Entry(name, None, said, sensitive=True, read_only=True, synonyms=[Said(name, None, said)])
