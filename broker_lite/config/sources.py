"""Where a value comes from: default < file < environment < flag < dynamic < topic.

`Settings` holds the text that each source gave, layer by layer, and answers `get(KEY)` with the parsed value of the
strongest layer that speaks.  Inside a layer the key's own name speaks before its synonyms.  Nothing is forgotten:
`explain` lists every layer that spoke, strongest first, which is what DescribeConfigs shows.

Every value is parsed when it enters, so `get` cannot fail.  A topic's own keys lie over the broker's:
`topic_config(overrides, settings)` gives a `TopicSettings` that follows later changes of the broker's settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeVar, cast

from broker_lite.config import elsewhere, environment
from broker_lite.config.broker import BROKER_KEYS
from broker_lite.config.client_metrics import CLIENT_METRICS_KEYS
from broker_lite.config.group import GROUP_KEYS
from broker_lite.config.kept import kept_keys, may_keep
from broker_lite.config.key import Key, Scope, Synonym
from broker_lite.config.security import PER_LISTENER, listener_key
from broker_lite.config.topic import (
    MAX_COMPACTION_LAG_MS,
    MIN_COMPACTION_LAG_MS,
    REMOTE_STORAGE_ENABLE,
    TOPIC_KEYS,
)
from broker_lite.errors import BrokerError, InvalidConfig, StartRefused
from broker_lite.shapes import dataclass, field

T = TypeVar("T")


class Source(IntEnum):
    """Weakest first."""

    DEFAULT = 0
    FILE = 1
    ENVIRONMENT = 2
    FLAG = 3
    DYNAMIC_CLUSTER = 4
    """Set while running, for all brokers."""
    DYNAMIC_BROKER = 5
    """Set while running, for this broker."""
    TOPIC = 6
    CLIENT_METRICS = 7
    GROUP = 8


_OWN = {Scope.TOPIC: Source.TOPIC, Scope.GROUP: Source.GROUP, Scope.CLIENT_METRICS: Source.CLIENT_METRICS}
_KEYS: dict[Scope, dict[str, Key[object]]] = {
    Scope.TOPIC: TOPIC_KEYS,
    Scope.GROUP: GROUP_KEYS,
    Scope.CLIENT_METRICS: CLIENT_METRICS_KEYS,
}
_STRONGEST_FIRST = tuple(sorted(Source, reverse=True))
_ALIASES = {
    synonym.name: key
    for key in BROKER_KEYS.values()
    for synonym in key.synonyms
    if key.scope is Scope.BROKER and synonym.name not in BROKER_KEYS
}


class Spoken(NamedTuple):
    """One source's word on a key: under which name, what, and who said it."""

    name: str
    value: str | None
    source: Source


class Note(NamedTuple):
    """Something about the sources that the log should tell, once there is one."""

    level: str
    event: str
    facts: Mapping[str, str]


class Settings:
    """The broker's settings. `get` is a dictionary lookup after the first time."""

    def __init__(self, layers: Mapping[Source, Mapping[str, str]] | None = None) -> None:
        self._layers: dict[Source, dict[str, str]] = {}
        self._values: dict[str, object] = {}
        self.version = 0
        """Rises with every change, for those who keep values."""
        for source, texts in (layers or {}).items():
            self.replace(source, texts)

    def replace(self, source: Source, texts: Mapping[str, str]) -> None:
        """From now on `source` says exactly `texts`. InvalidConfig, and no change, if one of them is wrong."""
        assert source is not Source.DEFAULT, "defaults are declared"
        assert source < Source.TOPIC, "topics and groups have their own settings"
        for name, text in texts.items():
            key = BROKER_KEYS.get(name) or _ALIASES.get(name) or listener_key(name) or kept_keys().get(name)
            if key is None:
                raise InvalidConfig(f"Unknown broker config name: {name}")
            key.parse(text)
        self._layers[source] = dict(texts)
        self._values.clear()
        self.version += 1

    def get(self, key: Key[T]) -> T:
        try:
            return cast(T, self._values[key.name])
        except KeyError:
            pass
        assert BROKER_KEYS.get(key.name) is key, f"{key.name} is not a key of the broker"
        value = key.default
        for spoken, factor in self._spoken(key):
            value = _scaled(key, spoken, factor)
            break
        self._values[key.name] = value
        return value

    def of_listener(self, listener: str, key: Key[T]) -> T:
        """The word for one listener (`listener.name.NAME.KEY`), else the word for all."""
        text = self.said(f"{PER_LISTENER}{listener.lower()}.{key.name}")
        return self.get(key) if text is None else key.parse(text)

    def said(self, name: str) -> str | None:
        """The strongest word under exactly this name."""
        layers = (self._layers.get(source, {}) for source in _STRONGEST_FIRST)
        return next((layer[name] for layer in layers if name in layer), None)

    def explain(self, key: Key[object]) -> list[Spoken]:
        """Everyone who spoke on `key`, strongest first; the default comes last."""
        return [spoken for spoken, _ in self._spoken(key)] + [Spoken(key.name, key.format(key.default), Source.DEFAULT)]

    def _spoken(self, key: Key[object]) -> Iterator[tuple[Spoken, int]]:
        names = (Synonym(key.name), *key.synonyms) if key.scope is Scope.BROKER else key.synonyms
        for source in _STRONGEST_FIRST:
            layer = self._layers.get(source)
            if not layer:
                continue
            for synonym in names:
                if synonym.name in layer:
                    yield Spoken(synonym.name, layer[synonym.name], source), synonym.factor

    def words(self, names: Sequence[str]) -> list[Spoken]:
        """What was said under `names`, source by source as Kafka lists it; defaults that are not null come last."""
        found = [
            Spoken(name, layer[name], source)
            for source in _STRONGEST_FIRST
            if (layer := self._layers.get(source))
            for name in names
            if name in layer
        ]
        for name in names:
            key = BROKER_KEYS.get(name) or kept_keys().get(name)
            if key is not None and key.default is not None:
                found.append(Spoken(name, key.format(key.default), Source.DEFAULT))
        return found


@dataclass(slots=True)
class TopicSettings:
    """A topic's settings: its own word, else the broker's, else Kafka's default. A group's are alike."""

    overrides: dict[str, str]
    broker: Settings
    scope: Scope = Scope.TOPIC
    _values: dict[str, object] = field(default_factory=dict)
    _version: int = -1

    def get(self, key: Key[T]) -> T:
        if self._version != self.broker.version:
            self._values.clear()
            self._version = self.broker.version
        elif key.name in self._values:
            return cast(T, self._values[key.name])
        assert _KEYS[self.scope].get(key.name) is key, f"{key.name} is not a key of a {self.scope.value}"
        value = key.default
        if key.name in self.overrides:
            value = key.parse(self.overrides[key.name])
        else:
            for spoken, factor in self.broker._spoken(key):
                value = _scaled(key, spoken, factor)
                break
        self._values[key.name] = value
        return value

    def explain(self, key: Key[object]) -> list[Spoken]:
        """Everyone who spoke on `key`, strongest first, as DescribeConfigs lists synonyms."""
        own = self.own(key)
        default_name = key.synonyms[-1].name if key.synonyms else key.name
        default = BROKER_KEYS.get(default_name, key)
        return [
            *own,
            *(spoken for spoken, _ in self.broker._spoken(key)),
            Spoken(default_name, default.format(default.default), Source.DEFAULT),
        ]

    def own(self, key: Key[object]) -> list[Spoken]:
        """What the topic, or the group, says itself."""
        text = self.overrides.get(key.name)
        return [] if text is None else [Spoken(key.name, text, _OWN[self.scope])]


def _scaled(key: Key[T], spoken: Spoken, factor: int) -> T:
    text = spoken.value or ""
    if factor == 1:
        return key.parse(text)
    count = int(text)
    return cast(T, count * factor if count >= 0 else -1)


def topic_config(overrides: Mapping[str, str | None], settings: Settings) -> TopicSettings:
    """A topic's settings, or InvalidConfig with the text that Kafka gives."""
    texts: dict[str, str] = {}
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
        if key is None:
            raise InvalidConfig(f"Unknown topic config name: {name}")
        if text is None:
            raise InvalidConfig(f"Null value not supported for topic configs: {name}")
        texts[name] = key.format(key.parse(text)) or ""
    made = TopicSettings(texts, settings)
    least, most = made.get(MIN_COMPACTION_LAG_MS), made.get(MAX_COMPACTION_LAG_MS)
    if least > most:
        raise InvalidConfig(
            f"conflict topic config setting {MIN_COMPACTION_LAG_MS.name} ({least})"
            f" > {MAX_COMPACTION_LAG_MS.name} ({most})"
        )
    if made.get(REMOTE_STORAGE_ENABLE):
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    return made


def resolve(
    file: Mapping[str, str], variables: Mapping[str, str], flags: Mapping[str, str]
) -> tuple[Settings, list[Note]]:
    """The settings that a process starts with, and what the log should say about their sources.

    An unknown key in a flag is refused with StartRefused, as is a wrong value anywhere; an unknown key in the file or
    the environment is warned of, as Kafka does.
    """
    notes: list[Note] = []
    ignored: dict[str, list[str]] = {}
    layers: dict[Source, dict[str, str]] = {Source.FILE: {}, Source.ENVIRONMENT: {}, Source.FLAG: {}}
    spelled = environment.keys_from(variables, BROKER_KEYS)
    given = [(Source.FILE, name, name, text) for name, text in file.items()]
    given += [(Source.ENVIRONMENT, name, variable, text) for name, (variable, text) in spelled.items()]
    given += [(Source.FLAG, name, f"--set {name}", text) for name, text in flags.items()]
    for source, name, where, text in given:
        key = BROKER_KEYS.get(name) or _ALIASES.get(name) or listener_key(name)
        if key is not None:
            try:
                key.parse(text)
            except BrokerError as error:
                raise StartRefused(f"{error} ({where})" if source is Source.ENVIRONMENT else str(error)) from None
            layers[source][name] = text
        elif reason := elsewhere.why_elsewhere(name):
            if reason == elsewhere.SECURITY and not text.strip():
                reason = elsewhere.NOTHING
            ignored.setdefault(reason, []).append(name)
            if may_keep(name, text):
                layers[source][name] = text
        elif source is Source.FLAG:
            raise StartRefused(f"unknown key {name} in --set; {nearest(name)}")
        else:
            notes.append(Note("warning", "config.unknown_key", {"key": where, "hint": nearest(name)}))
    for reason, names in ignored.items():
        level = "warning" if reason == elsewhere.SECURITY else "debug"
        notes.append(Note(level, "config.ignored", {"keys": ", ".join(sorted(set(names))), "reason": reason}))
    return Settings(layers), notes


def nearest(name: str) -> str:
    """A hint for somebody who wrote `name`."""
    topic_key = TOPIC_KEYS.get(name)
    if topic_key is not None and topic_key.synonyms:
        return f"it is a topic's key, the broker's is {topic_key.synonyms[0].name}"
    import difflib  # only for people who mistype

    close = difflib.get_close_matches(name, [*BROKER_KEYS, *_ALIASES, *elsewhere.known_elsewhere()], n=1, cutoff=0)
    return f"the nearest key is {close[0]}"
