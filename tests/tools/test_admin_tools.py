"""Kafka's tools do all of their verbs here, and what cannot be on one broker is refused in one sentence.

What each prints was compared with Apache Kafka 4.3.1: the same, but for ids, times and folders.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.broker import BrokerProcess
from tests.tools.toolbox import Toolbox

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    rules = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    everyone = ["--set", rules, "--set", "super.users=User:ANONYMOUS"]
    with BrokerProcess(tmp_path_factory.mktemp("tools"), everyone) as broker:
        yield broker


@pytest.fixture(scope="module")
def tools(broker: BrokerProcess) -> Iterator[Toolbox]:
    with Toolbox(broker.bootstrap) as tools:
        yield tools


def written(folder: Path, name: str, *partitions: dict[str, object]) -> str:
    """A file of the kind that several tools take."""
    path = folder / name
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(path)


def fill(broker: BrokerProcess, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for _ in range(records):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(20) == 0


def test_topics_are_made_changed_described_and_deleted(tools: Toolbox) -> None:
    made = "--partitions 2 --replication-factor 1 --config cleanup.policy=compact,delete"
    assert "Created topic first." in tools.does(f"kafka-topics --create --topic first {made}").text
    tools.does("kafka-topics --create --topic second --replica-assignment 1,1,1")
    assert "Topic 'first' already exists" in tools("kafka-topics --create --topic first").text
    tools.does("kafka-topics --create --topic first --if-not-exists")
    assert "only 1 broker(s) are registered" in tools("kafka-topics --create --topic third --replication-factor 3").text
    assert "Unknown topic config name: no.such" in tools("kafka-topics --create --topic x --config no.such=1").text
    assert tools.does("kafka-topics --list --topic first|second").rows[:2] == [["first"], ["second"]]
    described = tools.does("kafka-topics --describe --topic first").text
    assert "PartitionCount: 2" in described
    assert "cleanup.policy=compact,delete" in described
    assert described.count("Leader: 1\tReplicas: 1\tIsr: 1") == 2
    for filter in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"):
        assert "Topic:" not in tools.does(f"kafka-topics --describe {filter}").text
    assert "first" in tools.does("kafka-topics --describe --topics-with-overrides").text
    tools.does("kafka-topics --alter --topic first --partitions 5")
    assert "PartitionCount: 5" in tools.does("kafka-topics --describe --topic first").text
    refused = tools("kafka-topics --alter --topic first --partitions 3")
    assert "would not be an increase" in refused.text
    assert refused.code == 1
    tools.does("kafka-topics --delete --topic second")
    assert tools("kafka-topics --describe --topic second").code == 1


def test_every_kind_of_resource_is_configured(tools: Toolbox) -> None:
    tools.does("kafka-topics --create --topic configured")
    for entity, change, names, shown in (
        ("--topic configured", "retention.ms=5,cleanup.policy=[compact,delete]", "retention.ms", "retention.ms=5"),
        ("--broker 1", "log.cleaner.threads=2", "log.cleaner.threads", "DYNAMIC_BROKER_CONFIG:log.cleaner.threads=2"),
        ("--broker-defaults", "log.retention.ms=77", "log.retention.ms", "DEFAULT_BROKER_CONFIG:log.retention.ms=77"),
        ("--broker-logger 1", "broker_lite.cli.serve=DEBUG", "broker_lite.cli.serve", "broker_lite.cli.serve=DEBUG"),
        ("--group g", "consumer.session.timeout.ms=50000", "consumer.session.timeout.ms", "timeout.ms=50000"),
        ("--client-metrics m", "interval.ms=1000,match=[client_id=a.*]", "interval.ms,match", "match=client_id=a.*"),
        ("--user u", "producer_byte_rate=1024,request_percentage=50", "producer_byte_rate", "byte_rate=1024.0"),
        ("--user-defaults", "consumer_byte_rate=1024", "consumer_byte_rate", "consumer_byte_rate=1024.0"),
        ("--user u --client c", "controller_mutation_rate=3", "controller_mutation_rate", "mutation_rate=3.0"),
        ("--client-defaults", "producer_byte_rate=4", "producer_byte_rate", "producer_byte_rate=4.0"),
        ("--ip 10.0.0.1", "connection_creation_rate=10", "connection_creation_rate", "creation_rate=10.0"),
        (
            "--user s",
            "SCRAM-SHA-512=[iterations=4096,password=secret]",
            "SCRAM-SHA-512",
            "SCRAM-SHA-512=iterations=4096",
        ),
    ):
        tools.does(f"kafka-configs --alter {entity} --add-config", change)
        assert shown in tools.does(f"kafka-configs --describe {entity}").text, entity
        tools.does(f"kafka-configs --alter {entity} --delete-config", names)
        assert shown not in tools.does(f"kafka-configs --describe {entity}").text, entity
    everything = tools.does("kafka-configs --describe --topic configured --all").text
    assert "max.message.bytes=1048588 sensitive=false synonyms={DEFAULT_CONFIG:message.max.bytes=1048588}" in everything


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("--topic configured --add-config retention.ms=x", "Not a number of type LONG"),
        ("--topic nowhere --add-config retention.ms=5", "The topic 'nowhere' does not exist."),
        ("--broker 1 --add-config node.id=5", "Cannot update these configs dynamically: [node.id]"),
        ("--broker-logger 1 --add-config root=LOUD", "Cannot set the log level of root to LOUD"),
        ("--group g --add-config share.auto.offset.reset=never", "The value must be either 'earliest', 'latest'"),
        ("--group g --add-config streams.num.standby.replicas=9", "less than or equal to group.streams.max.standby"),
        ("--client-metrics m --add-config interval.ms=1", "interval must be between 100 and 3600000"),
        ("--user s --add-config SCRAM-SHA-256=[iterations=1,password=x]", "Iterations 1 is less than the minimum 4096"),
    ],
)
def test_what_is_wrong_is_refused_in_kafkas_words(tools: Toolbox, command: str, says: str) -> None:
    said = tools(f"kafka-configs --alter {command}")
    assert said.code == 1
    assert says in said.text


def test_records_are_counted_and_deleted(broker: BrokerProcess, tools: Toolbox, tmp_path: Path) -> None:
    tools.does("kafka-topics --create --topic counted --partitions 1")
    fill(broker, "counted", 5)
    for time, offset in (("-1", 5), ("latest", 5), ("-2", 0), ("earliest", 0), ("0", 0), ("-4", 0)):
        assert f"counted:0:{offset}\n" in tools.does(f"kafka-get-offsets --topic counted --time {time}").text, time
    wanted = written(tmp_path, "delete.json", {"topic": "counted", "partition": 0, "offset": 3})
    said = tools.does(f"kafka-delete-records --offset-json-file {wanted}").text
    assert "partition: counted-0\tlow_watermark: 3" in said
    assert "counted:0:3" in tools.does("kafka-get-offsets --topic counted --time earliest").text
    said = tools.does("kafka-log-dirs --describe --topic-list counted").text
    (folder,) = json.loads(said.splitlines()[-1])["brokers"][0]["logDirs"]
    assert folder["error"] is None
    assert [(one["partition"], one["size"] > 0) for one in folder["partitions"]] == [("counted-0", True)]


def test_leaders_and_replicas_are_where_they_can_be(tools: Toolbox, tmp_path: Path) -> None:
    tools.does("kafka-topics --create --topic still --partitions 1")
    said = tools.does("kafka-leader-election --election-type preferred --topic still --partition 0").text
    assert "Valid replica already elected for partitions still-0" in said
    here = written(tmp_path, "here.json", {"topic": "still", "partition": 0, "replicas": [1]})
    there = written(tmp_path, "there.json", {"topic": "still", "partition": 0, "replicas": [9]})
    moved = tools.does(f"kafka-reassign-partitions --execute --reassignment-json-file {here}").text
    assert "Successfully started partition reassignment for still-0" in moved
    said = tools.does(f"kafka-reassign-partitions --verify --reassignment-json-file {here}").text
    assert "Reassignment of partition still-0 is completed." in said
    assert "No partition reassignments found." in tools.does("kafka-reassign-partitions --list").text
    refused = tools(f"kafka-reassign-partitions --execute --reassignment-json-file {there}")
    assert "9" in refused.text
    assert refused.code == 1


def test_the_cluster_its_quorum_and_its_features_are_told(tools: Toolbox) -> None:
    assert "Cluster ID: " in tools.does("kafka-cluster cluster-id").text
    (node,) = [row for row in tools.does("kafka-cluster list-endpoints").rows if row[0] == "1"]
    assert f"{node[1]}:{node[2]}" == tools.bootstrap
    status = tools.does("kafka-metadata-quorum describe --status").text
    assert "LeaderId:               1" in status
    (voter,) = [row for row in tools.does("kafka-metadata-quorum describe --replication").rows if row[0] == "1"]
    assert voter[-1] == "Leader"
    levels = {row[1]: row[7] for row in tools.does("kafka-features describe").rows}
    assert (levels["group.version"], levels["transaction.version"]) == ("1", "2")
    assert "was downgraded to 1" in tools.does("kafka-features downgrade --feature transaction.version=1").text
    assert "was upgraded to 2" in tools.does("kafka-features upgrade --feature transaction.version=2").text
    refused = tools("kafka-features upgrade --feature transaction.version=3")
    assert "Could not upgrade transaction.version to 3." in refused.text
    assert "ConsumerGroupHeartbeat(68): 0 to 1 [usable: 1]" in tools.does("kafka-broker-api-versions").text


def test_rules_and_metrics_are_kept(tools: Toolbox) -> None:
    tools.does("kafka-acls --add --allow-principal User:al --consumer --topic t --group g")
    assert "User:al" in tools.does("kafka-acls --list --principal User:al").text
    tools.does("kafka-acls --remove --topic t --force")
    assert "TOPIC" not in tools.does("kafka-acls --list").text
    tools.does("kafka-client-metrics --alter --name slow --metrics org.apache.kafka.consumer. --interval 10000")
    assert ["slow"] in tools.does("kafka-client-metrics --list").rows
    assert "interval.ms=10000" in tools.does("kafka-client-metrics --describe --name slow").text
    tools.does("kafka-client-metrics --delete --name slow")
    assert ["slow"] not in tools.does("kafka-client-metrics --list").rows


@pytest.mark.parametrize(
    "command",
    [
        "kafka-share-groups --describe --group g",
        "kafka-streams-groups --describe --group g",
        "kafka-delegation-tokens --describe --command-config /dev/null",
        "kafka-metadata-quorum remove-controller --controller-id 1 --controller-directory-id AAAAAAAAAAAAAAAAAAAAAQ",
    ],
)
def test_what_is_not_here_is_refused_in_one_sentence(tools: Toolbox, command: str) -> None:
    assert "UnsupportedVersionException: The node does not support " in tools(command).text
