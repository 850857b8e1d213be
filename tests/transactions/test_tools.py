"""Kafka's own tools: transactions are looked at, hanging ones found and aborted; a copier copies exactly."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from broker_lite.records.build import NewRecord, build_batch
from broker_lite.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.differential.wire import Wire
from tests.support import kafka_tools
from tests.support.broker import BrokerProcess
from tests.transactions.reading import committed_values, create, is_settled

pytestmark = [pytest.mark.clients, pytest.mark.kafka]
MESSAGES = 4000


def java(name: str, *arguments: str) -> list[str]:
    settings = f"-Dlog4j2.configurationFile={kafka_tools.HOME / 'log4j2.properties'}"
    classpath = f"{kafka_tools.jars()}/*"
    return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", settings, "-cp", classpath, name, *arguments]


def transactions(bootstrap: str, *arguments: str) -> str:
    command = java("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", bootstrap, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_people_list_and_describe_transactions(broker_process: Callable[..., BrokerProcess]) -> None:
    broker = broker_process()
    create(broker.bootstrap, "t", 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "orders-1"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("t", b"x", partition=1)
    producer.flush(20)
    listed = transactions(broker.bootstrap, "list")
    assert [line.split()[0] for line in listed.splitlines()[1:]] == ["orders-1"]
    assert "Ongoing" in listed
    found = transactions(broker.bootstrap, "list", "--transactional-id-pattern", "orders-.*")
    assert "orders-1" in found
    assert "orders-1" not in transactions(broker.bootstrap, "list", "--transactional-id-pattern", "bills-.*")
    described = transactions(broker.bootstrap, "describe", "--transactional-id", "orders-1")
    assert "Ongoing" in described
    assert "t-1" in described
    writers = transactions(broker.bootstrap, "describe-producers", "--topic", "t", "--partition", "1")
    assert writers.splitlines()[1].split()[-1] == "0", "its transaction is open since offset 0"
    producer.commit_transaction(20)
    assert "CompleteCommit" in transactions(broker.bootstrap, "describe", "--transactional-id", "orders-1")


def test_a_transaction_is_ended_by_force_and_its_producer_fenced(broker_process: Callable[..., BrokerProcess]) -> None:
    broker = broker_process()
    create(broker.bootstrap, "t", 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "stuck", "log_level": 0})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("t", b"x")
    producer.flush(20)
    assert not is_settled(broker.bootstrap, "t", 1)
    assert "stuck" not in transactions(broker.bootstrap, "list", "--duration-filter", "3600000")
    transactions(broker.bootstrap, "forceTerminateTransaction", "--transactionalId", "stuck")
    assert is_settled(broker.bootstrap, "t", 1)
    assert committed_values(broker.bootstrap, "t", 1) == []
    assert "Empty" in transactions(broker.bootstrap, "describe", "--transactional-id", "stuck")
    with pytest.raises(KafkaException) as fenced:
        producer.commit_transaction(20)
    assert fenced.value.args[0].code() == KafkaError._FENCED


def test_a_hanging_transaction_is_found_and_aborted(broker_process: Callable[..., BrokerProcess]) -> None:
    """Only a broker that does not verify can get one: a batch of a producer that no coordinator knows."""
    broker = broker_process("--set", "transaction.partition.verification.enable=false")
    create(broker.bootstrap, "t", 1)
    batch = build_batch(
        [NewRecord(key=None, value=b"lost")],
        timestamp=int(time.time() * 1000) - 7_200_000,
        producer_id=4242,
        producer_epoch=3,
        base_sequence=0,
        transactional=True,
    )
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=memoryview(batch))])
    wire = Wire(broker.bootstrap)
    request = ProduceRequest(transactional_id="gone", acks=-1, timeout_ms=5000, topic_data=[data])
    answer = wire.ask("hang", request, 9, ProduceResponse)
    wire.close()
    assert answer is not None
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert not is_settled(broker.bootstrap, "t", 1)
    found = transactions(broker.bootstrap, "find-hanging", "--broker-id", "1").splitlines()[1].split()
    assert found[:5] == ["t", "0", "4242", "3", "-1"]
    transactions(broker.bootstrap, "abort", "--topic", "t", "--partition", "0", "--start-offset", "0")
    assert is_settled(broker.bootstrap, "t", 1)
    assert committed_values(broker.bootstrap, "t", 1) == []
    assert len(transactions(broker.bootstrap, "find-hanging", "--broker-id", "1").splitlines()) <= 1


def copier(bootstrap: str, log: Path) -> subprocess.Popen[bytes]:
    command = java(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", bootstrap, "--input-topic", "in", "--input-partition", "0", "--output-topic", "out"),
        *("--transactional-id", "copier", "--consumer-group", "copiers", "--transaction-size", "100"),
        *("--enable-random-aborts", "--use-group-metadata", "--transaction-timeout", "10000"),
    )
    with log.open("ab") as out:
        return subprocess.Popen(command, stdout=out, stderr=out)


@pytest.mark.timeout(240)
def test_a_copier_with_random_aborts_loses_nothing_and_repeats_nothing(
    broker_process: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    broker = broker_process("--set", "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000")
    create(broker.bootstrap, "in", 1)
    create(broker.bootstrap, "out", 1)
    source = Producer({"bootstrap.servers": broker.bootstrap, "queue.buffering.max.messages": 100_000})
    expected = [b"%d" % number for number in range(MESSAGES)]
    for value in expected:
        source.produce("in", value)
    assert source.flush(30) == 0
    log = tmp_path / "copier.log"
    for life in range(3):
        running = copier(broker.bootstrap, log)
        if life == 2:
            assert running.wait(120) == 0, log.read_text()[-3000:]
            break
        _until_copied(broker.bootstrap, running, more_than=(life + 1) * MESSAGES // 8)
        if life == 1:
            broker.restart(kill=True)
        running.kill()
        running.wait()
    last = json.loads(log.read_text().splitlines()[-1])
    assert int(last["remaining"]) == 0
    assert committed_values(broker.bootstrap, "out", 1) == expected


def _until_copied(bootstrap: str, running: subprocess.Popen[bytes], *, more_than: int) -> None:
    deadline = time.monotonic() + 60
    while running.poll() is None and len(committed_values(bootstrap, "out", 1)) <= more_than:
        assert time.monotonic() < deadline, "the copier does not get on"
