from __future__ import annotations

import pytest

from broker_lite.config import broker, security, topic
from broker_lite.config.broker import BROKER_KEYS
from broker_lite.config.key import Key
from broker_lite.config.topic import TOPIC_KEYS
from broker_lite.errors import ErrorCode, InvalidConfig


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        (topic.RETENTION_MS, "abc", "Not a number of type LONG"),
        (topic.RETENTION_MS, "", "Not a number of type LONG"),
        (topic.RETENTION_MS, "1_000", "Not a number of type LONG"),
        (topic.RETENTION_MS, "9" * 20, "Not a number of type LONG"),
        (topic.RETENTION_MS, "9" * 5000, "Not a number of type LONG"),
        (topic.RETENTION_MS, "-2", "Value must be at least -1"),
        (topic.SEGMENT_BYTES, "3000000000", "Not a number of type INT"),
        (topic.SEGMENT_BYTES, "13", "Value must be at least 14"),
        (topic.COMPRESSION_GZIP_LEVEL, "0", "Value must be between 1 and 9 or equal to -1"),
        (topic.MIN_CLEANABLE_DIRTY_RATIO, "1.5", "Value must be no more than 1"),
        (topic.MIN_CLEANABLE_DIRTY_RATIO, "x", "Not a number of type DOUBLE"),
        (topic.MIN_CLEANABLE_DIRTY_RATIO, "nan", "Not a number of type DOUBLE"),
        (topic.MIN_CLEANABLE_DIRTY_RATIO, "0.2_5", "Not a number of type DOUBLE"),
        (topic.MIN_CLEANABLE_DIRTY_RATIO, "٠", "Not a number of type DOUBLE"),
        (topic.PREALLOCATE, "yes", "Expected value to be either true or false"),
        (topic.COMPRESSION_TYPE, "ZSTD", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        (topic.CLEANUP_POLICY, "foo", "String must be one of: compact, delete"),
    ],
)
def test_a_wrong_value_is_refused_in_kafkas_words(key: Key[object], text: str, why: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        key.parse(text)
    assert str(refused.value) == f"Invalid value {text} for configuration {key.name}: {why}"
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_a_list_with_a_hole_or_a_wrong_entry_is_refused_in_kafkas_words() -> None:
    with pytest.raises(InvalidConfig, match=r"^Configuration 'cleanup.policy' values must not be empty.$"):
        topic.CLEANUP_POLICY.parse(" ,compact")
    with pytest.raises(InvalidConfig, match=r"^Invalid value \[foo\] for .* must be the literal '\*' or a list of"):
        topic.LEADER_REPLICATION_THROTTLED_REPLICAS.parse("foo")
    with pytest.raises(InvalidConfig, match="expected HOST:NUMBER"):
        broker.MAX_CONNECTIONS_PER_IP_OVERRIDES.parse("localhost:" + "9" * 5000)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        (topic.RETENTION_MS, " 5 ", 5),
        (topic.RETENTION_MS, "+5", 5),
        (topic.RETENTION_MS, "0" * 5000 + "5", 5),
        (topic.RETENTION_MS, "-1", -1),
        (topic.RETENTION_BYTES, "-5", -5),
        (topic.SEGMENT_BYTES, "14", 14),
        (topic.PREALLOCATE, "TRUE", True),
        (topic.COMPRESSION_GZIP_LEVEL, "-1", -1),
        (topic.COMPRESSION_TYPE, "gzip ", "gzip"),
        (topic.CLEANUP_POLICY, "compact, delete", ("compact", "delete")),
        (topic.CLEANUP_POLICY, "compact,compact", ("compact",)),
        (topic.CLEANUP_POLICY, "", ()),
        (topic.LEADER_REPLICATION_THROTTLED_REPLICAS, "*", ("*",)),
        (topic.LEADER_REPLICATION_THROTTLED_REPLICAS, "0:1,1:2", ("0:1", "1:2")),
        (topic.MIN_CLEANABLE_DIRTY_RATIO, "0.25", 0.25),
    ],
)
def test_a_right_value_is_read_as_kafka_reads_it(key: Key[object], text: str, value: object) -> None:
    assert key.parse(text) == value


@pytest.mark.parametrize("key", [*TOPIC_KEYS.values(), *BROKER_KEYS.values()], ids=lambda key: key.name)
def test_every_default_is_a_value_that_the_key_itself_takes(key: Key[object]) -> None:
    text = key.format(key.default)
    assert text is None or key.parse(text) == key.default
    assert key.doc.endswith(".")


def test_every_topic_key_of_kafka_is_accepted_with_kafkas_default() -> None:
    """Kafka 4.3's list, as its own LogConfig prints it; only `internal.*` is left out."""
    listed = {
        "cleanup.policy": "delete", "compression.gzip.level": "-1", "compression.lz4.level": "9",
        "compression.type": "producer", "compression.zstd.level": "3", "delete.retention.ms": "86400000",
        "file.delete.delay.ms": "60000", "flush.messages": "9223372036854775807", "flush.ms": "9223372036854775807",
        "follower.replication.throttled.replicas": "", "index.interval.bytes": "4096",
        "leader.replication.throttled.replicas": "", "local.retention.bytes": "-2", "local.retention.ms": "-2",
        "max.compaction.lag.ms": "9223372036854775807", "max.message.bytes": "1048588",
        "message.timestamp.after.max.ms": "3600000", "message.timestamp.before.max.ms": "9223372036854775807",
        "message.timestamp.type": "CreateTime", "min.cleanable.dirty.ratio": "0.5", "min.compaction.lag.ms": "0",
        "min.insync.replicas": "1", "preallocate": "false", "remote.log.copy.disable": "false",
        "remote.log.delete.on.disable": "false", "remote.storage.enable": "false", "retention.bytes": "-1",
        "retention.ms": "604800000", "segment.bytes": "1073741824", "segment.index.bytes": "10485760",
        "segment.jitter.ms": "0", "segment.ms": "604800000", "unclean.leader.election.enable": "false",
    }  # fmt: skip
    shown = [key for key in TOPIC_KEYS.values() if not key.internal and not key.name.startswith("broker.lite.")]
    ours = {key.name: key.format(key.default) for key in shown}
    assert ours == listed


def test_a_topic_keys_synonyms_are_keys_of_the_broker_with_the_same_default() -> None:
    for key in TOPIC_KEYS.values():
        for synonym in key.synonyms:
            assert synonym.name in BROKER_KEYS
        if key.synonyms:
            last = key.synonyms[-1]
            default = BROKER_KEYS[last.name].default
            assert (default * last.factor if isinstance(default, int) else default) == key.default, key.name


def test_the_defaults_that_differ_from_kafkas_are_the_ones_we_chose() -> None:
    assert broker.NUM_PARTITIONS.default == 1
    assert broker.AUTO_CREATE_TOPICS_ENABLE.default is True
    assert BROKER_KEYS["group.initial.rebalance.delay.ms"].default == 100
    assert broker.LISTENERS.default == ("PLAINTEXT://127.0.0.1:9092",)


def test_bounds_are_shown_in_kafkas_notation() -> None:
    assert topic.RETENTION_MS.bounds() == "[-1,...]"
    assert topic.COMPRESSION_ZSTD_LEVEL.bounds() == "[-131072,...,22]"
    assert security.CONNECTION_FAILED_AUTHENTICATION_DELAY_MS.bounds() == "[0,...,2147483647]"
    assert topic.COMPRESSION_GZIP_LEVEL.bounds() == "[1,...,9] or -1"
    assert topic.MESSAGE_TIMESTAMP_TYPE.bounds() == "[CreateTime, LogAppendTime]"
    assert topic.PREALLOCATE.bounds() == ""


def test_a_key_without_effect_says_why() -> None:
    assert topic.SEGMENT_BYTES.honoured
    assert not topic.MIN_INSYNC_REPLICAS.honoured
    assert "one copy" in topic.MIN_INSYNC_REPLICAS.ignored
