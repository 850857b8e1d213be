"""Kafka's own tools on our groups: its formatters print what we wrote, kafka-consumer-groups does all of its verbs."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support import kafka_tools
from tests.support.broker import BrokerProcess
from tests.tools.toolbox import Toolbox

pytestmark = pytest.mark.kafka

FORMATTERS = "org.apache.kafka.tools.consumer"


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One partition of each internal topic, and a topic with ten records in each of two partitions."""
    arguments = ["--set", "offsets.topic.num.partitions=1", "--set", "transaction.state.log.num.partitions=1"]
    with BrokerProcess(tmp_path_factory.mktemp("groups"), arguments) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", 2, 1)])["t"].result(20)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "writer"})
        producer.init_transactions(20)
        producer.begin_transaction()
        for number in range(20):
            producer.produce("t", b"x", partition=number % 2)
        producer.commit_transaction(20)
        yield broker


@pytest.fixture(scope="module")
def tools(groups: BrokerProcess) -> Iterator[Toolbox]:
    with Toolbox(groups.bootstrap) as tools:
        yield tools


def run(tool: str, *arguments: str) -> str:
    quiet = f"-Dlog4j2.configurationFile={kafka_tools.HOME / 'log4j2.properties'}"
    java = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", quiet]
    command = [*java, "-cp", f"{kafka_tools.jars()}/*", tool, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def verb(tools: Toolbox, *arguments: str) -> list[list[str]]:
    """The words of each line that kafka-consumer-groups prints."""
    return tools.does("kafka-consumer-groups", *arguments).rows


def commit(broker: BrokerProcess, group: str, *offsets: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    places = [TopicPartition("t", partition, offset) for partition, offset in enumerate(offsets)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def committed(broker: BrokerProcess, group: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    found = consumer.committed([TopicPartition("t", 0), TopicPartition("t", 1)], timeout=20)
    consumer.close()
    return [place.offset for place in found]


def printed(
    broker: BrokerProcess, topic: str, formatter: str, records: int | None
) -> list[dict[str, dict[str, object]]]:
    """So many records, or all that are there now."""
    enough = ["--timeout-ms", "2000"] if records is None else ["--timeout-ms", "20000", "--max-messages", str(records)]
    said = run(
        f"{FORMATTERS}.ConsoleConsumer", "--bootstrap-server", broker.bootstrap, "--topic", topic, "--from-beginning",
        "--formatter", f"{FORMATTERS}.{formatter}", *enough,
    )  # fmt: skip
    found, at = [], said.find("{")
    while 0 <= at < len(said):  # one after the other, with nothing between them
        one, at = json.JSONDecoder().raw_decode(said, at)
        found.append(one)
        at = said.find("{", at)
    return found


def test_kafkas_formatter_prints_our_commits(groups: BrokerProcess) -> None:
    commit(groups, "printed", 3, 4)
    found = printed(groups, "__consumer_offsets", "OffsetsMessageFormatter", 2)
    keys = [line["key"]["data"] for line in found]
    assert {"group": "printed", "topic": "t", "partition": 0} in keys
    values = {line["key"]["data"]["partition"]: line["value"]["data"] for line in found}  # type: ignore[index]
    assert [values[0]["offset"], values[1]["offset"]] == [3, 4]  # type: ignore[index]


def test_kafkas_formatter_prints_our_groups(groups: BrokerProcess) -> None:
    settings = {"bootstrap.servers": groups.bootstrap, "group.id": "named", "client.id": "me"}
    consumer = Consumer({**settings, "group.instance.id": "first", "session.timeout.ms": 46_000})
    consumer.subscribe(["t"])
    while not consumer.assignment():
        consumer.poll(0.1)
    found = printed(groups, "__consumer_offsets", "GroupMetadataMessageFormatter", None)
    consumer.close()
    born, last = [line for line in found if line["key"]["data"] == {"group": "named"}]
    group = last["value"]["data"]
    assert isinstance(group, dict)
    assert born["value"]["data"]["members"] == []  # type: ignore[index]
    assert (last["key"]["type"], last["value"]["version"]) == (2, 3)
    assert (group["protocolType"], group["generation"], group["protocol"]) == ("consumer", 1, "range")
    (member,) = group["members"]
    assert (member["memberId"], member["groupInstanceId"], member["clientId"]) == (group["leader"], "first", "me")
    assert member["sessionTimeout"] == 46_000
    assert b"\0\1t" in base64.b64decode(member["subscription"])
    assert b"\0\1t" in base64.b64decode(member["assignment"])


def test_kafkas_formatter_prints_our_transactions(groups: BrokerProcess) -> None:
    found = printed(groups, "__transaction_state", "TransactionLogMessageFormatter", 4)
    assert {line["key"]["data"]["transactionalId"] for line in found} == {"writer"}  # type: ignore[index]
    last = found[-1]["value"]["data"]
    assert isinstance(last, dict)
    assert last["transactionTimeoutMs"] == 60_000


def test_a_live_group_is_listed_and_described(groups: BrokerProcess, tools: Toolbox) -> None:
    commit(groups, "alive", 3, 4)
    settings = {"bootstrap.servers": groups.bootstrap, "group.id": "alive", "client.id": "me"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe(["t"])
    while not consumer.assignment():
        consumer.poll(0.1)
    listed = verb(tools, "--list", "--state")
    assert ["alive", "Stable"] in [line[:1] + line[-1:] for line in listed]
    lines = [line for line in verb(tools, "--describe", "--group", "alive") if line[0] == "alive"]
    assert sorted(line[1:6] for line in lines) == [["t", "0", "3", "11", "8"], ["t", "1", "4", "11", "7"]]
    assert {line[-1] for line in lines} == {"me"}
    (member,) = [line for line in verb(tools, "--describe", "--group", "alive", "--members", "--verbose")
                 if line[0] == "alive"]  # fmt: skip
    assert any("0,1" in word for word in member)
    (state,) = [line for line in verb(tools, "--describe", "--group", "alive", "--state") if line[0] == "alive"]
    assert state[-2:] == ["Stable", "1"]
    consumer.close()


def test_offsets_are_reset_and_deleted(groups: BrokerProcess, tools: Toolbox, tmp_path: Path) -> None:
    commit(groups, "moved", 3, 4)
    reset = ["--reset-offsets", "--group", "moved", "--topic", "t"]
    assert ["moved", "t", "0", "0"] in [line[:4] for line in verb(tools, *reset, "--to-earliest", "--dry-run")]
    assert committed(groups, "moved") == [3, 4], "a dry run"
    verb(tools, *reset, "--shift-by", "2", "--execute")
    assert committed(groups, "moved") == [5, 6]
    verb(tools, *reset, "--to-datetime", "2001-01-01T00:00:00.000", "--execute")
    assert committed(groups, "moved") == [0, 0]
    verb(tools, *reset, "--by-duration", "PT0S", "--execute")
    assert committed(groups, "moved") == [11, 11], "nothing came since now"
    verb(tools, *reset, "--by-duration", "P1D", "--execute")
    assert committed(groups, "moved") == [0, 0]
    verb(tools, *reset, "--to-offset", "400", "--execute")
    assert committed(groups, "moved") == [11, 11], "not beyond the end"
    plan = tmp_path / "plan.csv"
    plan.write_text('"t",0,7\n"t",1,8\n')
    verb(tools, "--reset-offsets", "--group", "moved", "--from-file", str(plan), "--execute")
    assert committed(groups, "moved") == [7, 8]
    exported = verb(tools, *reset, "--to-current", "--dry-run", "--export")
    assert sorted(exported) == [["t,0,7"], ["t,1,8"]]
    verb(tools, "--delete-offsets", "--group", "moved", "--topic", "t:1")
    assert committed(groups, "moved") == [7, -1001]
    verb(tools, "--delete", "--group", "moved")
    assert committed(groups, "moved") == [-1001, -1001]
    admin = AdminClient({"bootstrap.servers": groups.bootstrap})
    left = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("moved")])["moved"].result()
    assert not left.topic_partitions
