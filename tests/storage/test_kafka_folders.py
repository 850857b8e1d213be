"""Kafka's data folder is ours, and our partition folders are Kafka's: a real Apache Kafka writes, and reads."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from broker_lite.log import layout
from tests.support import kafka_tools
from tests.support.broker import BrokerProcess
from tests.support.kafka_server import KafkaServer
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 3
TIME = 1_700_000_000_000
KEEP = {"log.retention.ms": "-1"}
OURS_KEEPS = ("--set", "log.retention.ms=-1")
"""Both brokers look for old segments half a minute after their start, and what is written here is old."""
GROUP = "readers"
NEW_GROUP = "new-readers"
T = TypeVar("T")
NOT_YET = (
    ck.KafkaError.NOT_COORDINATOR,
    ck.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    ck.KafkaError.COORDINATOR_NOT_AVAILABLE,
    ck.KafkaError.NOT_LEADER_FOR_PARTITION,
    ck.KafkaError.LEADER_NOT_AVAILABLE,
)
Told = tuple[int, int, bytes | None, bytes | None, object]


@dataclass(slots=True)
class Seen:
    """What clients can find out about a topic."""

    topic_id: str
    records: dict[int, list[Told]] = field(default_factory=dict)
    watermarks: dict[int, tuple[int, int]] = field(default_factory=dict)
    by_time: dict[int, int] = field(default_factory=dict)
    committed: dict[tuple[str, int], int] = field(default_factory=dict)


def fill(bootstrap: str, topic: str) -> None:
    """Every codec, headers, nulls, an idempotent producer, committed, aborted and deleted records."""
    for number, codec in enumerate(CODECS):
        producer = ck.Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True})
        for at in range(300):
            producer.produce(
                topic,
                key=None if at % 7 == 0 else f"key-{at}",
                value=None if at % 11 == 0 else f"{codec}-{at}" * 20,
                partition=at % PARTITIONS,
                timestamp=TIME + number * 1000 + at,
                headers=[("h", b"x"), ("n", None)] if at % 5 == 0 else None,
            )
        assert producer.flush(30) == 0
    producer = transactional(bootstrap, "finished")
    for commit in (True, False, True):
        producer.begin_transaction()
        for at in range(30):
            producer.produce(topic, f"{commit}-{at}", partition=at % PARTITIONS, timestamp=TIME + 9000)
        assert producer.flush(30) == 0  # what is still in the queue is not aborted but forgotten
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)


def write_one(bootstrap: str, topic: str) -> None:
    producer = ck.Producer({"bootstrap.servers": bootstrap})
    for index in range(PARTITIONS):
        producer.produce(topic, "one", partition=index, timestamp=TIME)
    assert producer.flush(30) == 0


def transactional(bootstrap: str, name: str) -> ck.Producer:
    producer = ck.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": 600_000, "linger.ms": 5}
    )
    producer.init_transactions(60)
    return producer


def leave_open(bootstrap: str, topic: str) -> ck.Producer:
    """A transaction that nobody has ended when the broker stops."""
    producer = transactional(bootstrap, "unfinished")
    producer.begin_transaction()
    producer.produce(topic, "of an open transaction", partition=0, timestamp=TIME + 9500)
    producer.flush(30)
    return producer


def commit_some(bootstrap: str, topic: str) -> None:
    consumer = reader(bootstrap, GROUP)
    offsets = [ck.TopicPartition(topic, index, 50 + index, f"metadata {index}") for index in range(PARTITIONS)]
    patiently(lambda: consumer.commit(offsets=offsets, asynchronous=False))
    consumer.close()


def commit_as_a_new_group(bootstrap: str, topic: str) -> None:
    """A member of a group that the broker balances (KIP-848)."""
    consumer = ck.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": NEW_GROUP,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    assert consumer.consume(10, 60), "the group got no records"
    consumer.commit(
        offsets=[ck.TopicPartition(topic, index, 70 + index) for index in range(PARTITIONS)], asynchronous=False
    )
    consumer.close()


def reader(bootstrap: str, group: str) -> ck.Consumer:
    return ck.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )


def look(bootstrap: str, topic: str) -> Seen:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_topics(ck.TopicCollection([topic]))[topic].result(30)
    seen = Seen(str(described.topic_id))
    consumer = reader(bootstrap, GROUP)
    every = [ck.TopicPartition(topic, index) for index in range(PARTITIONS)]
    for group in (GROUP, NEW_GROUP):
        member = reader(bootstrap, group)
        for one in patiently(partial(member.committed, every, timeout=30)):
            seen.committed[group, one.partition] = one.offset
        member.close()
    times = [ck.TopicPartition(topic, one.partition, TIME + 2100) for one in every]
    for one in patiently(partial(consumer.offsets_for_times, times, timeout=30)):
        seen.by_time[one.partition] = one.offset
    for one in every:
        low, high = patiently(partial(consumer.get_watermark_offsets, one, timeout=30))
        seen.watermarks[one.partition] = (low, high)
        seen.records[one.partition] = list(read_all(consumer, topic, one.partition, low))
    consumer.close()
    return seen


def patiently(ask: Callable[[], T]) -> T:
    """The answer of a broker that may have come up a moment ago and still loads what it is asked for."""
    answers: list[T] = []

    def answered() -> bool:
        try:
            answers.append(ask())
        except ck.KafkaException as error:
            if error.args[0].code() not in NOT_YET:
                raise
        return bool(answers)

    until(answered, within=60, what="an answer", every=0.5)
    return answers[0]


def read_all(consumer: ck.Consumer, topic: str, partition: int, start: int) -> Iterator[Told]:
    consumer.assign([ck.TopicPartition(topic, partition, start)])
    while True:
        message = consumer.poll(30)
        assert message is not None, f"{topic}-{partition} gave nothing more"
        error = message.error()
        if error is not None and error.code() == ck.KafkaError._PARTITION_EOF:
            return
        assert error is None, error
        yield message.offset(), message.timestamp()[1], message.key(), message.value(), message.headers()  # type: ignore[misc]


def make_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)


def delete_some(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_records([ck.TopicPartition(topic, 1, 25)]).values():
        done.result(30)


@pytest.mark.parametrize("end", [KafkaServer.stop, KafkaServer.kill], ids=["stopped", "killed"])
def test_a_folder_of_kafka_opens_with_everything_that_was_in_it(
    tmp_path: Path, end: Callable[[KafkaServer], None]
) -> None:
    with KafkaServer(tmp_path / "kafka", KEEP) as kafka:
        make_topic(kafka.bootstrap, "orders")
        fill(kafka.bootstrap, "orders")
        if end is KafkaServer.stop:  # Kafka writes deletions down half a minute later
            delete_some(kafka.bootstrap, "orders")
        commit_some(kafka.bootstrap, "orders")
        commit_as_a_new_group(kafka.bootstrap, "orders")
        left = leave_open(kafka.bootstrap, "orders")
        before = look(kafka.bootstrap, "orders")
        end(kafka)
    broker = BrokerProcess(tmp_path / "ours", OURS_KEEPS)
    broker.data = kafka.data
    with broker:
        after = look(broker.bootstrap, "orders")
        assert after == before
        assert before.watermarks[1][0] == (25 if end is KafkaServer.stop else 0)
        assert before.committed == {
            (group, index): first + index
            for group, first in ((GROUP, 50), (NEW_GROUP, 70))
            for index in range(PARTITIONS)
        }
        commit_as_a_new_group(broker.bootstrap, "orders")
        # The same transactional id: what it left open is aborted, and nobody gets its producer id.
        producer = transactional(broker.bootstrap, "unfinished")
        producer.begin_transaction()
        producer.produce("orders", "of a new transaction", partition=0)
        producer.commit_transaction(30)
        plain = ck.Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        plain.produce("orders", "of a new producer", partition=1)
        assert plain.flush(30) == 0
        newest = look(broker.bootstrap, "orders")
        values = {index: [one[3] for one in records] for index, records in newest.records.items()}
        assert values[0][-1] == b"of a new transaction"
        assert values[1][-1] == b"of a new producer"
        assert b"of an open transaction" not in values[0]
        broker.restart()
        assert look(broker.bootstrap, "orders") == newest
    del left


def test_our_partition_folders_are_served_by_kafka(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "ours", [*OURS_KEEPS, "--set", "log.segment.bytes=65536"]) as broker:
        make_topic(broker.bootstrap, "orders")
        for _ in range(4):  # so that our leader epochs are higher than Kafka's
            write_one(broker.bootstrap, "orders")
            broker.restart()
        fill(broker.bootstrap, "orders")
        commit_some(broker.bootstrap, "orders")
        before = look(broker.bootstrap, "orders")
        broker.stop()
    with KafkaServer(tmp_path / "kafka", KEEP) as kafka:
        make_topic(kafka.bootstrap, "orders")
        commit_some(kafka.bootstrap, "orders")
        kafka.stop()
        hand_over(broker.data, kafka.data, "orders")
        kafka.start()
        after = look(kafka.bootstrap, "orders")
        assert (after.records, after.watermarks, after.by_time) == (before.records, before.watermarks, before.by_time)
        producer = transactional(kafka.bootstrap, "finished")
        producer.begin_transaction()
        producer.produce("orders", "written by Kafka", partition=0)
        producer.commit_transaction(30)
        assert look(kafka.bootstrap, "orders").records[0][-1][3] == b"written by Kafka"
        said = console(tmp_path, kafka.bootstrap, "orders")
        assert said.count("written by Kafka") == 1
        assert said.count("\n") == sum(map(len, before.records.values())) + 1
        kafka.stop()


def console(folder: Path, bootstrap: str, topic: str) -> str:
    """What Kafka's own consumer prints, which knows more of leader epochs than others do."""
    tool = kafka_tools.scripts(folder / "bin") / "kafka-console-consumer.sh"
    committed = ["--isolation-level", "read_committed", "--timeout-ms", "10000"]
    command = [str(tool), "--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning", *committed]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout


def hand_over(ours: Path, kafkas: Path, topic: str) -> None:
    """What the documentation says: the files of each partition, all but the one with the topic's id."""
    for index in range(PARTITIONS):
        target = kafkas / f"{topic}-{index}"
        for file in target.iterdir():
            if file.name != layout.PARTITION_METADATA:
                file.unlink()
        for file in (ours / f"{topic}-{index}").iterdir():
            if file.name != layout.PARTITION_METADATA:
                shutil.copy(file, target)
