from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.cli.serve import limits_from, options_from, parser
from broker_lite.config import broker as keys
from broker_lite.config.listeners import Listener
from broker_lite.config.sources import Note
from broker_lite.config.start import Durability, StartOptions, TopicAtStart
from broker_lite.errors import StartRefused


def options(*words: str, **environment: str) -> StartOptions:
    return options_from(parser().parse_args(words), environment)[0]


def notes(*words: str, **environment: str) -> list[Note]:
    return options_from(parser().parse_args(words), environment)[1]


def test_every_flag_of_the_command_line_arrives(tmp_path: Path) -> None:
    made = options(
        *("--listen", "127.0.0.1:0", "--listen", "INSIDE://0.0.0.0:29092", "--advertise", "INSIDE://broker:29092"),
        *("--data", "/d,1", "--durability", "fsync", "--node-id", "7", "--cluster-id", "abc"),
        *("--topic", "a:3,cleanup.policy=compact,delete", "--topic", "b", "--set", "num.partitions=5"),
        *("--log-format", "json", "--ready-file", str(tmp_path / "ready")),
    )
    assert made.listeners == [Listener("PLAINTEXT", "127.0.0.1", 0), Listener("INSIDE", "0.0.0.0", 29092)]
    assert made.advertised == {"INSIDE": Listener("INSIDE", "broker", 29092)}
    assert made.data == Path("/d,1")
    assert made.durability is Durability.FSYNC
    assert (made.node_id, made.cluster_id) == (7, "abc")
    assert made.topics == [TopicAtStart("a", 3, {"cleanup.policy": "compact,delete"}), TopicAtStart("b")]
    assert made.settings.get(keys.NUM_PARTITIONS) == 5
    assert (made.log_format, made.ready_file) == ("json", tmp_path / "ready")


def test_a_flag_wins_over_the_environment_and_the_environment_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nnode.id=2\nlog.dirs=/from/file\n")
    made = options("--config", str(file), "--node-id", "4", KAFKA_NUM_PARTITIONS="3", KAFKA_NODE_ID="3")
    assert made.node_id == 4
    assert made.settings.get(keys.NUM_PARTITIONS) == 3
    assert made.data == Path("/from/file")


def test_who_protects_the_broker_means_the_plain_listener_that_there_is(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://:9095\n")
    image = {"KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092", "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092"}
    user = ("--sasl-user", "alice:secret")
    assert options(*user).listeners == [Listener("SASL_PLAINTEXT", "127.0.0.1", 9092, "SASL_PLAINTEXT")]
    assert options(*user, "--config", str(file)).listeners == [Listener("SASL_PLAINTEXT", "", 9095, "SASL_PLAINTEXT")]
    made = options(*user, "--tls", str(tmp_path), **image)
    assert made.listeners == [Listener("SASL_SSL", "0.0.0.0", 9092, "SASL_SSL")]
    assert made.advertised == {"SASL_SSL": Listener("SASL_SSL", "localhost", 9092)}


def test_listeners_with_names_stay_as_they_are_when_users_are_added() -> None:
    two = "listeners=SASL_PLAINTEXT://:9093,PLAINTEXT://127.0.0.1:9094"
    made = options("--sasl-user", "alice:secret", "--set", two)
    assert [(one.name, one.port) for one in made.listeners] == [("SASL_PLAINTEXT", 9093), ("PLAINTEXT", 9094)]
    with pytest.raises(StartRefused, match="SASL_SSL is asked for, but no listener speaks SSL: there are SASL_PLAINT"):
        options("--sasl-user", "alice:secret", "--tls", "certs", "--set", two)


def test_the_environment_of_the_apache_image_makes_a_start() -> None:
    environment = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://localhost:9093",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_NUM_PARTITIONS": "3",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw",
    }
    made = options(**environment)
    assert made.listeners == [Listener("PLAINTEXT", "", 9092)]
    assert made.advertised == {"PLAINTEXT": Listener("PLAINTEXT", "localhost", 9092)}
    assert made.settings.get(keys.AUTO_CREATE_TOPICS_ENABLE) is False
    assert [note.level for note in notes(**environment)] == ["debug"]


def test_an_unnamed_address_is_advertised_for_the_unnamed_listener() -> None:
    made = options("--listen", "0.0.0.0:9092", "--advertise", "broker.example:9092")
    assert made.advertised == {"PLAINTEXT": Listener("PLAINTEXT", "broker.example", 9092)}


def test_a_file_that_is_not_utf_8_is_read_as_java_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "old.properties"
    file.write_bytes(b"broker.rack=caf\xe9\n")
    assert options("--config", str(file)).settings.get(keys.BROKER_RACK) == "café"
    file.write_bytes(b"broker.rack=\\u00\n")
    with pytest.raises(StartRefused, match="four hexadecimal digits"):
        options("--config", str(file))


def test_the_limits_are_those_of_the_settings() -> None:
    limits = limits_from(options("--set", "max.connections=9", "--set", "connections.max.idle.ms=1000"))
    assert (limits.max_connections, limits.max_idle_ms) == (9, 1000)
    assert limits.request_max_bytes == 104857600


def test_how_fast_clients_may_come_is_said_for_all_and_for_one_listener() -> None:
    listeners = ["--listen", "A://127.0.0.1:0", "--listen", "B://127.0.0.1:0"]
    rate = "max.connection.creation.rate"
    said = options(*listeners, "--set", f"{rate}=50", "--set", f"listener.name.b.{rate}=5")
    assert limits_from(said).creation_rates == {"": 50, "A": 50, "B": 5}
