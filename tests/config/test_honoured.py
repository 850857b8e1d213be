"""A key that is accepted is honoured, or says why it is not: each key is looked for in the code that should read it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import broker_lite
from broker_lite.config import broker, client_metrics, coordination, group, security, topic
from broker_lite.config.key import Key
from broker_lite.config.topic import TOPIC_KEYS

MODULES = ("broker", "client_metrics", "coordination", "group", "security", "topic")
PACKAGE = Path(broker_lite.__file__).parent
DECLARED = {
    name: key
    for module in (broker, client_metrics, coordination, group, security, topic)
    for name, key in vars(module).items()
    if isinstance(key, Key) and not name.startswith("_")
}
SPEAKS_FOR_A_TOPIC = {synonym.name: key for key in TOPIC_KEYS.values() for synonym in key.synonyms}
CHECKED_WHEN_IT_IS_SET = {
    "share.session.timeout.ms",
    "share.heartbeat.interval.ms",
    "share.auto.offset.reset",
    "streams.session.timeout.ms",
    "streams.heartbeat.interval.ms",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "max.compaction.lag.ms",
    "remote.storage.enable",
}


def names_used() -> set[str]:
    """Every name and attribute in the package, the declarations themselves left out."""
    declarations = {PACKAGE / "config" / f"{module}.py" for module in MODULES}
    used: set[str] = set()
    for path in sorted(set(PACKAGE.rglob("*.py")) - declarations):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                used.add(node.attr)
            elif isinstance(node, ast.Name):
                used.add(node.id)
    return used


USED = names_used()


@pytest.mark.parametrize("name", DECLARED)
def test_a_key_is_read_by_somebody_or_says_why_not(name: str) -> None:
    key = DECLARED[name]
    topic_key = SPEAKS_FOR_A_TOPIC.get(key.name)
    if topic_key is not None and key.name not in TOPIC_KEYS:
        assert key.honoured == topic_key.honoured, f"{key.name} speaks for {topic_key.name}"
    elif key.honoured:
        assert name in USED, f"nobody reads {key.name}, but it does not say why"
    elif key.name not in CHECKED_WHEN_IT_IS_SET:
        assert name not in USED, f"{key.name} is read, but says that it has no effect"
