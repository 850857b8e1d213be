from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.config.sources import Settings, Source
from broker_lite.config.start import Durability, TopicAtStart, parse_topic, start_options
from broker_lite.errors import StartRefused


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("a", TopicAtStart("a")),
        ("a:3", TopicAtStart("a", 3)),
        ("a.b_c-d:3,retention.ms=5", TopicAtStart("a.b_c-d", 3, {"retention.ms": "5"})),
        ("a,retention.ms=5", TopicAtStart("a", None, {"retention.ms": "5"})),
        (
            "a:1,cleanup.policy=compact,delete,retention.ms=5",
            TopicAtStart("a", 1, {"cleanup.policy": "compact,delete", "retention.ms": "5"}),
        ),
        (
            "a,leader.replication.throttled.replicas=0:1,1:2",
            TopicAtStart("a", None, {"leader.replication.throttled.replicas": "0:1,1:2"}),
        ),
    ],
)
def test_a_topic_at_start_is_understood(text: str, topic: TopicAtStart) -> None:
    assert parse_topic(text) == topic


@pytest.mark.parametrize(
    "text", ["", ":3", "a:0", "a:-1", "a:x", "a:", "a:10001", "a:" + "9" * 5000, "a/b", "a,compact", "..", "a:٣"]
)
def test_what_is_not_a_topic_is_refused(text: str) -> None:
    with pytest.raises(StartRefused, match="--topic"):
        parse_topic(text)


def test_without_any_source_the_defaults_make_a_start() -> None:
    options = start_options(Settings())
    assert options.data == Path("data")
    assert options.durability is Durability.OS
    assert options.node_id == 1
    assert options.cluster_id is None
    assert [str(listener) for listener in options.listeners] == ["PLAINTEXT://127.0.0.1:9092"]


def test_a_wrong_key_of_a_topic_stops_the_start() -> None:
    with pytest.raises(StartRefused, match="--topic a: Unknown topic config name: x"):
        start_options(Settings(), topics=[TopicAtStart("a", 1, {"x": "1"})])


def test_several_data_folders_stop_the_start() -> None:
    with pytest.raises(StartRefused, match=r"2 folders \(/a, /b\)"):
        start_options(Settings({Source.FILE: {"log.dirs": "/a,/b"}}))
