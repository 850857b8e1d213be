from __future__ import annotations

import pytest

from broker_lite.config import broker, topic
from broker_lite.config.broker import BROKER_KEYS
from broker_lite.config.sources import Settings, Source, Spoken, resolve, topic_config
from broker_lite.errors import InvalidConfig, StartRefused

NO: dict[str, str] = {}


def test_a_stronger_source_wins_and_all_are_remembered() -> None:
    settings, _ = resolve({"num.partitions": "2"}, {"KAFKA_NUM_PARTITIONS": "3"}, {"num.partitions": "4"})
    assert settings.get(broker.NUM_PARTITIONS) == 4
    settings.replace(Source.DYNAMIC_CLUSTER, {"num.partitions": "5"})
    assert settings.get(broker.NUM_PARTITIONS) == 5
    assert settings.explain(BROKER_KEYS["num.partitions"]) == [
        Spoken("num.partitions", "5", Source.DYNAMIC_CLUSTER),
        Spoken("num.partitions", "4", Source.FLAG),
        Spoken("num.partitions", "3", Source.ENVIRONMENT),
        Spoken("num.partitions", "2", Source.FILE),
        Spoken("num.partitions", "1", Source.DEFAULT),
    ]


def test_a_dynamic_value_that_is_taken_back_uncovers_the_one_below() -> None:
    settings, _ = resolve({"message.max.bytes": "2000"}, NO, NO)
    settings.replace(Source.DYNAMIC_BROKER, {"message.max.bytes": "3000"})
    assert settings.get(broker.MESSAGE_MAX_BYTES) == 3000
    settings.replace(Source.DYNAMIC_BROKER, {})
    assert settings.get(broker.MESSAGE_MAX_BYTES) == 2000


def test_a_wrong_dynamic_value_changes_nothing() -> None:
    settings = Settings()
    with pytest.raises(InvalidConfig):
        settings.replace(Source.DYNAMIC_BROKER, {"num.partitions": "3", "message.max.bytes": "x"})
    assert settings.get(broker.NUM_PARTITIONS) == 1
    with pytest.raises(InvalidConfig, match="Unknown broker config name: foo"):
        settings.replace(Source.DYNAMIC_BROKER, {"foo": "1"})


def test_the_topic_speaks_before_the_broker_and_the_broker_before_the_default() -> None:
    settings = Settings({Source.FILE: {"log.retention.hours": "2"}})
    assert topic_config({}, Settings()).get(topic.RETENTION_MS) == 604800000
    assert topic_config({}, settings).get(topic.RETENTION_MS) == 7200000
    assert topic_config({"retention.ms": "9"}, settings).get(topic.RETENTION_MS) == 9


def test_of_the_brokers_three_retention_keys_the_finest_speaks_first() -> None:
    said = {"log.retention.hours": "2", "log.retention.minutes": "3"}
    assert topic_config({}, Settings({Source.FILE: said})).get(topic.RETENTION_MS) == 180000
    said["log.retention.ms"] = "4"
    assert topic_config({}, Settings({Source.FILE: said})).get(topic.RETENTION_MS) == 4
    said = {"log.retention.minutes": "-1"}
    assert topic_config({}, Settings({Source.FILE: said})).get(topic.RETENTION_MS) == -1


def test_a_topic_follows_later_changes_of_the_broker() -> None:
    settings = Settings()
    made = topic_config({"segment.bytes": "100"}, settings)
    assert made.get(topic.MAX_MESSAGE_BYTES) == 1048588
    settings.replace(Source.DYNAMIC_CLUSTER, {"message.max.bytes": "77", "log.segment.bytes": "200"})
    assert made.get(topic.MAX_MESSAGE_BYTES) == 77
    assert made.get(topic.SEGMENT_BYTES) == 100


def test_a_topics_synonyms_are_listed_in_order() -> None:
    settings = Settings({Source.FILE: {"log.retention.hours": "2"}, Source.FLAG: {"log.retention.ms": "5"}})
    made = topic_config({"retention.ms": " 9 "}, settings)
    assert made.explain(topic.TOPIC_KEYS["retention.ms"]) == [
        Spoken("retention.ms", "9", Source.TOPIC),
        Spoken("log.retention.ms", "5", Source.FLAG),
        Spoken("log.retention.hours", "2", Source.FILE),
        Spoken("log.retention.hours", "168", Source.DEFAULT),
    ]


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"x": "1"}, "Unknown topic config name: x"),
        ({"message.format.version": "3.0"}, "Unknown topic config name: message.format.version"),
        ({"retention.ms": "abc"}, "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        (
            {"remote.storage.enable": "true"},
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
    ],
)
def test_a_bad_topic_is_refused_in_kafkas_words(overrides: dict[str, str | None], says: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        topic_config(overrides, Settings())
    assert str(refused.value) == says


def test_a_brokers_key_of_another_name_still_counts() -> None:
    settings, notes = resolve(NO, {"KAFKA_BROKER_ID": "7", "KAFKA_LOG_DIR": "/x"}, NO)
    assert settings.get(broker.NODE_ID) == 7
    assert settings.get(broker.LOG_DIRS) == ("/x",)
    assert notes == []


def test_an_unknown_key_in_a_flag_stops_the_start_and_names_the_nearest() -> None:
    with pytest.raises(StartRefused, match=r"unknown key num.partition in --set; the nearest key is num.partitions"):
        resolve(NO, NO, {"num.partition": "3"})
    with pytest.raises(StartRefused, match=r"it is a topic's key, the broker's is log.retention.ms"):
        resolve(NO, NO, {"retention.ms": "3"})


def test_an_unknown_key_in_a_file_or_the_environment_is_warned_of_once() -> None:
    _, notes = resolve({"num.partitons": "3"}, {"KAFKA_AUTO_CREATE_TOPIC_ENABLE": "true"}, NO)
    assert [(note.level, note.facts["key"], note.facts["hint"]) for note in notes] == [
        ("warning", "num.partitons", "the nearest key is num.partitions"),
        ("warning", "KAFKA_AUTO_CREATE_TOPIC_ENABLE", "the nearest key is auto.create.topics.enable"),
    ]


def test_keys_of_a_cluster_are_noted_in_one_debug_line() -> None:
    variables = {
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    }
    settings, notes = resolve(NO, variables, NO)
    assert [note.level for note in notes] == ["debug"]
    assert notes[0].facts["keys"] == "controller.quorum.voters, offsets.topic.replication.factor, process.roles"
    assert settings.get(broker.NUM_PARTITIONS) == 1


def test_keys_that_ask_for_protection_are_warned_of() -> None:
    _, notes = resolve({"ssl.engine.factory.class": "x", "delegation.token.master.key": "y"}, NO, NO)
    assert [(note.level, note.facts["keys"]) for note in notes] == [
        ("warning", "delegation.token.master.key, ssl.engine.factory.class")
    ]


def test_a_wrong_value_stops_the_start_wherever_it_stands() -> None:
    with pytest.raises(StartRefused, match=r"Invalid value x for configuration num.partitions"):
        resolve({"num.partitions": "x"}, NO, NO)
    with pytest.raises(StartRefused, match=r"Not a number of type INT \(KAFKA_NUM_PARTITIONS\)"):
        resolve(NO, {"KAFKA_NUM_PARTITIONS": "x"}, NO)


def test_a_key_that_asks_for_security_is_warned_of_unless_it_says_nothing() -> None:
    _, notes = resolve(
        {"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256", "ssl.endpoint.identification.algorithm": ""}, NO, NO
    )
    found = {note.facts["keys"]: (note.level, note.facts["reason"]) for note in notes}
    assert found == {
        "ssl.cipher.suites": ("warning", "asks for security that this broker does not have"),
        "ssl.endpoint.identification.algorithm": ("debug", "turns off what this broker does not have"),
    }
