"""The admin's commands as a person types them: groups, configs, quotas, users, transactions, log-dirs, cluster."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import anyio
import pytest
from confluent_kafka import Consumer

from broker_lite.client.client import Client
from broker_lite.client.groups import assigned, commit
from broker_lite.ids import TopicPartition
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker_lite.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from tests.cli.test_end_to_end import command, said
from tests.conftest import BrokerFactory
from tests.support.broker import BrokerProcess


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


def test_configuration_is_changed_and_shown(broker: BrokerProcess, topic: str) -> None:
    said(broker, "topics", "create", topic)
    first = said(broker, "configs", "describe", "topic", topic).splitlines()
    assert [line.split()[0] for line in first] == ["KEY", "min.insync.replicas"]  # as in Kafka, set for all brokers
    done = said(
        broker, "configs", "alter", "topic", topic, "--set", "retention.ms=5", "--append", "cleanup.policy=compact"
    )
    assert done == f"changed 2 of topic {topic}\n"
    found = json.loads(said(broker, "configs", "describe", "topic", topic, "--json"))
    assert {one["name"]: (one["value"], one["source"]) for one in found} == {
        "cleanup.policy": ("delete,compact", "topic"),
        "min.insync.replicas": ("1", "all brokers"),
        "retention.ms": ("5", "topic"),
    }
    said(broker, "configs", "alter", "topic", topic, "--delete", "retention.ms", "--subtract", "cleanup.policy=delete")
    assert "compact" in said(broker, "configs", "describe", "topic", topic)
    everything = json.loads(said(broker, "configs", "describe", "broker", "1", "--all", "--json"))
    assert {"node.id", "num.partitions"} <= {one["name"] for one in everything}
    refused = command(broker, "configs", "alter", "topic", topic, "--set", "nope=1")
    assert (refused.returncode, refused.stderr) == (1, "broker-lite: INVALID_CONFIG: Unknown topic config name: nope\n")


def test_quotas_are_set_listed_and_removed(broker: BrokerProcess) -> None:
    said(broker, "quotas", "set", "--user", "bob", "--client-id", "<default>", "producer_byte_rate=1024")
    (found,) = json.loads(said(broker, "quotas", "list", "--user", "bob", "--client-id", "<default>", "--json"))
    assert found == {"entity": {"client-id": None, "user": "bob"}, "limits": {"producer_byte_rate": 1024.0}}
    assert "client-id <default>, user bob" in said(broker, "quotas", "list")
    said(broker, "quotas", "set", "--user", "bob", "--client-id", "<default>", "producer_byte_rate=1048576")
    assert "producer_byte_rate  1048576\n" in said(broker, "quotas", "list")
    gone = said(broker, "quotas", "remove", "--user", "bob", "--client-id", "<default>", "producer_byte_rate")
    assert gone == "removed producer_byte_rate\n"
    assert said(broker, "quotas", "list", "--user", "bob", "--client-id", "<default>") == ""


def test_users_are_added_listed_and_deleted(broker: BrokerProcess, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("open sesame\n")
    added = said(broker, "users", "add", "alice", "--password-file", str(secret))
    assert added == "alice can log in with SCRAM-SHA-256 and SCRAM-SHA-512\n"
    assert json.loads(said(broker, "users", "list", "--json"))["alice"] == {
        "SCRAM-SHA-256": 4096,
        "SCRAM-SHA-512": 4096,
    }
    assert said(broker, "users", "delete", "alice") == "deleted alice\n"
    assert "alice" not in said(broker, "users", "list")
    assert command(broker, "users", "add", "bob", stdin="\n").returncode == 1


def test_a_group_is_described_moved_and_deleted(broker: BrokerProcess, topic: str) -> None:
    said(broker, "produce", topic, stdin="a\nb\nc\nd\n")
    group = f"g-{topic}"

    async def consume_two() -> None:
        async with await Client.connect(broker.bootstrap) as client:
            await commit(client, group, {TopicPartition(topic, 0): 2})

    anyio.run(consume_two)
    assert {"group": group, "type": "classic", "state": "Empty"} in json.loads(said(broker, "groups", "list", "--json"))
    facts = json.loads(said(broker, "groups", "describe", group, "--json"))
    (part,) = facts["partitions"]
    assert (part["offset"], part["end"], part["lag"]) == (2, 4, 2)
    assert facts["type"] == "classic"
    assert said(broker, "groups", "describe", group).splitlines()[0] == f"{group}  classic  Empty  0 members"

    def moved(*words: str) -> int:
        (one,) = json.loads(said(broker, "groups", "reset", group, *words, "--json"))
        return int(one["offset"])

    assert moved("--to-latest", "--dry-run") == 4
    assert moved("--shift-by", "-1") == 1
    assert moved("--to-earliest") == 0
    assert moved("--to-offset", "99", "--topic", f"{topic}:0") == 4
    assert moved("--to-time", "0", "--topic", topic) == 0
    assert said(broker, "groups", "delete", group) == f"deleted {group}\n"
    gone = command(broker, "groups", "describe", group)
    assert (gone.returncode, gone.stderr) == (1, f"broker-lite: GROUP_ID_NOT_FOUND: Group {group} not found.\n")


def test_a_group_that_cannot_be_moved_is_told_why(broker: BrokerProcess, topic: str) -> None:
    said(broker, "topics", "create", topic)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    alive = command(broker, "groups", "reset", topic, "--topic", topic, "--to-earliest")
    consumer.close()
    why = f"the group {topic} has members, it is Stable: it can be moved when they have left"
    assert (alive.returncode, alive.stderr) == (1, f"broker-lite: {why}\n")
    never = command(broker, "groups", "reset", "never-was", "--to-latest")
    why = "the group never-was has no offsets yet: say with --topic what it is to read"
    assert (never.returncode, never.stderr) == (1, f"broker-lite: {why}\n")


def test_a_forgotten_transaction_is_found_and_aborted(broker: BrokerProcess, topic: str) -> None:
    said(broker, "topics", "create", topic)

    async def begin() -> None:
        async with await Client.connect(broker.bootstrap) as client:
            ask = InitProducerIdRequest(transactional_id=f"x-{topic}", transaction_timeout_ms=60000)
            made = await client.request(ask, InitProducerIdResponse)
            part = AddPartitionsToTxnTopic(name=topic, partitions=[0])
            add = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=f"x-{topic}",
                v3_and_below_producer_id=made.producer_id,
                v3_and_below_producer_epoch=made.producer_epoch,
                v3_and_below_topics=[part],
            )
            await client.request(add, AddPartitionsToTxnResponse, at_most=3)
            batch = build_batch(
                [NewRecord(key=None, value=b"x")],
                timestamp=1_700_000_000_000,
                producer_id=made.producer_id,
                producer_epoch=made.producer_epoch,
                base_sequence=0,
                transactional=True,
            )
            await client.produce_batch(topic, 0, batch, transactional_id=f"x-{topic}")

    anyio.run(begin)
    listed = json.loads(said(broker, "transactions", "list", "--state", "Ongoing", "--json"))
    assert f"x-{topic}" in [one["id"] for one in listed]
    described = json.loads(said(broker, "transactions", "describe", f"x-{topic}", "--json"))
    assert (described["state"], described["partitions"]) == ("Ongoing", [f"{topic}-0"])
    assert said(broker, "transactions", "describe", f"x-{topic}").splitlines()[-1].split() == [
        "partitions",
        f"{topic}-0",
    ]
    (producer,) = json.loads(said(broker, "transactions", "producers", topic, "--partition", "0", "--json"))
    assert producer["transaction_start_offset"] == 0
    assert "aborted the transaction" in said(
        broker, "transactions", "abort", topic, "--partition", "0", "--start-offset", "0"
    )
    (producer,) = json.loads(said(broker, "transactions", "producers", topic, "--partition", "0", "--json"))
    assert producer["transaction_start_offset"] == -1
    again = command(broker, "transactions", "abort", topic, "--partition", "0", "--start-offset", "0")
    assert again.returncode == 1


def test_folders_and_the_cluster_are_shown(broker: BrokerProcess, topic: str) -> None:
    said(broker, "produce", topic, stdin="x\n")
    (folder,) = json.loads(said(broker, "log-dirs", topic, "--json"))
    assert folder["partitions"][f"{topic}-0"] > 0
    assert f"{topic}-0" in said(broker, "log-dirs")
    facts = json.loads(said(broker, "cluster", "--json"))
    assert [one["id"] for one in facts["brokers"]] == [facts["controller"]]
    assert said(broker, "cluster").startswith(f"cluster {facts['cluster_id']}\n")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_properties_file_says_how_to_get_in(broker_process: BrokerFactory, tmp_path: Path, mechanism: str) -> None:
    broker = broker_process(
        "--set", "listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT",
        "--set", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "--set", "broker.lite.sasl.users=alice:secret",
    )  # fmt: skip
    config = tmp_path / "client.properties"
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="secret";'
    config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n")
    assert said(broker, "cluster", "--command-config", str(config)).startswith("cluster ")
    config.write_text(config.read_text().replace("secret", "wrong"))
    refused = command(broker, "cluster", "--command-config", str(config))
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    config.write_text("security.protocol=SASL_PLAINTEXT\n")
    wrong = command(broker, "cluster", "--command-config", str(config))
    assert (wrong.returncode, "sasl.mechanism is missing" in wrong.stderr) == (1, True)


def test_an_assignment_in_other_words_is_nothing() -> None:
    assert assigned(b"") == []
    assert assigned(b"\x00\x01\x00\x00\x00\x01\x00\x01a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x05") == [
        TopicPartition("a", 0),
        TopicPartition("a", 5),
    ]
    assert assigned(b"\x00\x01\x00\x00\x00\x01\x00\x09a") == []
