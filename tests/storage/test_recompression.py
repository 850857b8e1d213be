"""Topics with a codec of their own, under a producer that has five requests in flight."""

from __future__ import annotations

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from broker_lite.log import layout
from broker_lite.records.batch import walk
from tests.conftest import BrokerFactory

pytestmark = pytest.mark.clients
COUNT = 20_000


@pytest.mark.parametrize("durability", ["os", "fsync"])
@pytest.mark.parametrize(("topics", "producers"), [("zstd", "none"), ("gzip", "lz4"), ("uncompressed", "snappy")])
def test_records_stay_in_order_and_are_stored_in_the_topics_codec(
    broker_process: BrokerFactory, durability: str, topics: str, producers: str
) -> None:
    broker = broker_process("--durability", durability)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("t", 1, 1, config={"compression.type": topics})])["t"].result(10)
    producer = ck.Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "compression.type": producers,
            "enable.idempotence": True,
            "batch.num.messages": 500,
            "linger.ms": 2,
        }
    )
    for at in range(COUNT):
        producer.produce("t", f"{at:06d}" * 10)
        producer.poll(0)
    assert producer.flush(60) == 0
    consumer = ck.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([ck.TopicPartition("t", 0, 0)])
    messages = consumer.consume(COUNT, 60)
    consumer.close()
    assert [(one.offset(), one.value()) for one in messages] == [(at, b"%06d" % at * 10) for at in range(COUNT)]
    broker.stop()
    stored = (broker.data / "t-0" / layout.file_name(0, layout.LOG)).read_bytes()
    codecs = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
    assert {codecs[batch.codec] for batch in walk(stored)} == {topics}
