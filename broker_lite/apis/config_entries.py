"""Configuration as answers show it: value, where it came from, and who else had a word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from broker_lite.config.key import Kind
from broker_lite.config.sources import Source, TopicSettings
from broker_lite.config.topic import TOPIC_KEYS

_WIRE_SOURCE = {
    Source.TOPIC: 1,
    Source.DYNAMIC_BROKER: 2,
    Source.DYNAMIC_CLUSTER: 3,
    Source.FLAG: 4,
    Source.ENVIRONMENT: 4,
    Source.FILE: 4,
    Source.DEFAULT: 5,
}


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    value: str | None
    source: int
    sensitive: bool
    read_only: bool = False


def topic_entries(settings: TopicSettings) -> Iterator[Entry]:
    """Every key that a topic can have, in the order of their names."""
    for name, key in sorted(TOPIC_KEYS.items()):
        sensitive = key.kind is Kind.PASSWORD
        yield Entry(
            name,
            None if sensitive else key.format(settings.get(key)),
            _WIRE_SOURCE[settings.explain(key)[0].source],
            sensitive,
        )
