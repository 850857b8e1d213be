"""What was configured while running: brokers, groups and client metrics. Topics keep their own; see `topics`.

Each resource has one entry in the journal with all that was set for it.  A change is checked, journalled, then applied;
a broker's takes effect at once: the settings have a new layer, and whoever keeps something derived from them is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker_lite.broker.journal import Change, Json
from broker_lite.config import resources
from broker_lite.config.broker import MIN_INSYNC_REPLICAS
from broker_lite.config.key import Scope
from broker_lite.config.sources import Settings, Source, TopicSettings

KIND = "config"
FIELDS = {"configs": dict}
EVERY_BROKER = ""

_WORDS = {Scope.BROKER: "broker", Scope.GROUP: "group", Scope.CLIENT_METRICS: "client-metrics"}
_SCOPES = {word: scope for scope, word in _WORDS.items()}


class Configs:
    def __init__(self, settings: Settings, node_id: int, write: Callable[[list[Change]], None]) -> None:
        self._settings = settings
        self._node = str(node_id)
        self._write = write
        self._at_first = {MIN_INSYNC_REPLICAS.name: str(settings.get(MIN_INSYNC_REPLICAS))}
        """Kafka's controller sets this for all brokers by itself, so that eligible leaders can be told (KIP-966)."""
        self._texts: dict[tuple[Scope, str], dict[str, str]] = {(Scope.BROKER, EVERY_BROKER): self._at_first}
        settings.replace(Source.DYNAMIC_CLUSTER, self._at_first)
        self.on_change: list[Callable[[Scope, str], None]] = []
        """Called with the resource after each change, but not while the journal is replayed."""

    def get(self, scope: Scope, name: str) -> dict[str, str]:
        """All that was set for a resource, and nothing else."""
        return dict(self._texts.get((scope, name), {}))

    def has(self, scope: Scope, name: str) -> bool:
        """Whether anything was set for a resource."""
        return (scope, name) in self._texts

    def names(self, scope: Scope) -> list[str]:
        return [name for one, name in self._texts if one is scope]

    def group(self, group_id: str) -> TopicSettings:
        """A group's settings: its own word, else the broker's."""
        return TopicSettings(self.get(Scope.GROUP, group_id), self._settings, Scope.GROUP)

    def client_metrics(self, name: str) -> TopicSettings:
        return TopicSettings(self.get(Scope.CLIENT_METRICS, name), self._settings, Scope.CLIENT_METRICS)

    def set(self, scope: Scope, name: str, texts: Mapping[str, str]) -> None:
        """From now on exactly `texts` are set. They have been checked."""
        if texts == self._texts.get((scope, name), {}):
            return
        values: dict[str, Json] = dict(texts)
        change = Change(KIND, f"{_WORDS[scope]}/{name}", {"configs": values} if values else None)
        self._write([change])
        self.apply(change)
        for tell in self.on_change:
            tell(scope, name)

    def apply(self, change: Change) -> None:
        word, _, name = change.name.partition("/")
        scope = _SCOPES[word]
        configs = {} if change.value is None else change.value["configs"]
        assert isinstance(configs, dict)
        if (scope, name) == (Scope.BROKER, EVERY_BROKER):
            configs = {**self._at_first, **configs}
        if configs:
            self._texts[scope, name] = {key: str(text) for key, text in configs.items()}
        else:
            self._texts.pop((scope, name), None)
        if scope is Scope.BROKER and name in (EVERY_BROKER, self._node):
            layer = Source.DYNAMIC_CLUSTER if name == EVERY_BROKER else Source.DYNAMIC_BROKER
            self._settings.replace(layer, resources.broker_keys_in_force(self.get(scope, name)))
