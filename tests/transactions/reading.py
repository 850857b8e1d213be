"""What readers of committed records see of a topic, and whether a transaction holds them up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol

from confluent_kafka import Consumer, IsolationLevel, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec


def create(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        made.result(30)


def _ends(bootstrap: str, topic: str, partitions: int, isolation: IsolationLevel) -> list[int]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    latest = OffsetSpec.latest()
    asked = {TopicPartition(topic, part): latest for part in range(partitions)}
    return [answer.result(20).offset for answer in admin.list_offsets(asked, isolation_level=isolation).values()]


def is_settled(bootstrap: str, topic: str, partitions: int) -> bool:
    """Does nobody wait for a marker?"""
    high = _ends(bootstrap, topic, partitions, IsolationLevel.READ_UNCOMMITTED)
    return _ends(bootstrap, topic, partitions, IsolationLevel.READ_COMMITTED) == high


class Polled(Protocol):
    def poll(self, timeout: float, /) -> Message | None: ...


def to_the_end(consumer: Polled, seconds: float = 90) -> Iterator[Message]:
    """Every record up to the end of the partition. On a busy machine a connection may fail first: that is no end."""
    deadline = time.monotonic() + seconds
    while True:
        message = consumer.poll(1)
        error = None if message is None else message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            return
        if message is not None and error is None:
            yield message
        else:
            assert time.monotonic() < deadline, f"the end was not reached: {error}"


def committed(bootstrap: str, topic: str, partitions: int) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "looking",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    found = []
    try:
        for partition in range(partitions):
            consumer.assign([TopicPartition(topic, partition, 0)])
            found += [(message.key(), message.value()) for message in to_the_end(consumer)]
    finally:
        consumer.close()
    return found


def committed_values(bootstrap: str, topic: str, partitions: int) -> list[bytes | None]:
    return [value for _, value in committed(bootstrap, topic, partitions)]
