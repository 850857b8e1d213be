"""Send and read with a client we did not write (confluent-kafka), in two lines."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

PATIENCE = 30.0


def send(bootstrap: str, topic: str, values: Iterable[bytes]) -> None:
    """Every value is acknowledged when this returns; the topic is made by the first one."""
    refused: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": int(PATIENCE * 1000)})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: refused.append(error) if error else None)
    left = producer.flush(PATIENCE)
    assert not refused, f"the broker at {bootstrap} refused: {refused[0]}"
    assert not left, f"{left} messages were not acknowledged by {bootstrap} within {PATIENCE} s"


def read(bootstrap: str, topic: str) -> list[bytes]:
    """All values that are in the topic now, by partition and offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    try:
        partitions = sorted(consumer.list_topics(topic, PATIENCE).topics[topic].partitions)
        values: list[bytes] = []
        for partition in partitions:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), PATIENCE)
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            position = 0
            while position < end:
                message = consumer.poll(PATIENCE)
                assert message is not None, f"{topic}-{partition} at {bootstrap}: read {position} of {end} records"
                assert message.error() is None, message.error()
                values.append(message.value() or b"")
                position = (message.offset() or 0) + 1
        return values
    finally:
        consumer.close()
