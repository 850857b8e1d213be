"""Clients that know nothing newer than Kafka 0.8.2, 0.9 or 0.10 write and read, among themselves and with new ones."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.storage.old_clients import OLD_CLIENTS, OldClient
from tests.support.broker import BrokerProcess

pytestmark = pytest.mark.clients
COUNT = 30


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("old")) as process:
        yield process
        process.stop()


def make_topic(broker: BrokerProcess, name: str) -> str:
    """Its records are of 2023, and are kept all the same."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "-1"})]).values():
        future.result(10)
    return name


def read_with_a_new_client(broker: BrokerProcess, topic: str, count: int) -> list[tuple[int, bytes, bytes]]:
    consumer = ck.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "new", "auto.offset.reset": "earliest"})
    consumer.assign([ck.TopicPartition(topic, 0, ck.OFFSET_BEGINNING)])
    messages = consumer.consume(count, timeout=20)
    consumer.close()
    assert [message.error() for message in messages] == [None] * count
    return [(message.offset(), message.key(), message.value()) for message in messages]  # type: ignore[misc]


@pytest.mark.parametrize("client", OLD_CLIENTS, ids=str)
def test_an_old_client_writes_and_everybody_reads(broker: BrokerProcess, client: OldClient) -> None:
    topic = make_topic(broker, f"written-by-{client}")
    expected: list[tuple[int, str, str]] = []
    for codec in client.codecs:
        told = client.produce(broker.bootstrap, topic, COUNT, codec)
        assert told == list(range(len(expected), len(expected) + COUNT))
        expected += [(len(expected) + at, f"key-{at}", f"{codec}-{at}") for at in range(COUNT)]
    found = client.read(broker.bootstrap, topic, len(expected))
    assert [(one["offset"], one["key"], one["value"]) for one in found] == expected
    new = read_with_a_new_client(broker, topic, len(expected))
    assert [(offset, key.decode(), value.decode()) for offset, key, value in new] == expected


@pytest.mark.parametrize("client", OLD_CLIENTS, ids=str)
def test_a_new_client_writes_and_an_old_one_reads(broker: BrokerProcess, client: OldClient) -> None:
    """Headers, transactions and batches of every codec that the old one knows."""
    topic = make_topic(broker, f"read-by-{client}")
    expected: list[str] = []
    for codec in client.codecs:
        producer = ck.Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "compression.type": codec,
                "transactional.id": f"{client}-{codec}",
                "linger.ms": 20,
            }
        )
        producer.init_transactions(20)
        for part in range(2):
            producer.begin_transaction()
            for at in range(COUNT):
                value = f"{codec}-{part}-{at}" + "x" * 100
                producer.produce(topic, value, key=f"{at}", headers={"h": "v"}, timestamp=1_700_000_000_000 + at)
                expected.append(value)
            producer.commit_transaction(20)
    found = client.read(broker.bootstrap, topic, len(expected))
    assert [one["value"] for one in found] == expected
    for one in found:
        at = int(str(one["key"]))
        assert one["timestamp"] == 1_700_000_000_000 + at if client.timestamps else one["timestamp"] in (None, -1)
