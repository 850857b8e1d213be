"""Topics with everything in them, written by a client that is not ours."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from broker_lite.log.layout import HIGH_WATERMARKS, parse_offsets
from tests.support.waiting import until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def create(bootstrap: str, topic: str, partitions: int = 2, **config: str) -> None:
    """The records are of a fixed past time, so nothing may be deleted for its age."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {"retention.ms": "-1"} | config
    for made in admin.create_topics([NewTopic(topic, partitions, 1, config=config)]).values():
        made.result(20)


def fill(bootstrap: str, topic: str, count: int = 500, partitions: int = 2, codec: str = "lz4") -> None:
    """`count` records a partition, with keys, nulls and headers."""
    refused: list[object] = []
    # A batch must fit into a segment, and the segments of these tests are small.
    settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5, "batch.size": 8000}
    producer = Producer(settings)
    for index in range(count):
        for partition in range(partitions):
            producer.produce(
                topic,
                key=None if index % 7 == 0 else f"key-{index % 10}",
                value=None if index % 11 == 0 else f"{topic} {partition} {index}" * (1 + index % 3),
                partition=partition,
                timestamp=1_714_000_000_000 + 1000 * index,
                headers=[("h", b"1"), ("null", None)] if index % 5 == 0 else None,
                on_delivery=lambda error, _: refused.append(error) if error else None,
            )
    assert producer.flush(30) == 0
    assert not refused, refused[0]


def transact(bootstrap: str, topic: str, transactional_id: str, outcomes: str, each: int = 20) -> Producer:
    """One transaction a letter: c is committed, a aborted, o left open (only as the last one)."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "linger.ms": 0,
            "transaction.timeout.ms": 900_000,
        }
    )
    producer.init_transactions(30)
    for number, outcome in enumerate(outcomes):
        producer.begin_transaction()
        for index in range(each):
            producer.produce(topic, value=f"{transactional_id} {number} {outcome} {index}", partition=index % 2)
        assert producer.flush(30) == 0
        if outcome == "c":
            producer.commit_transaction(30)
        elif outcome == "a":
            producer.abort_transaction(30)
    return producer


def ends_of(bootstrap: str, topic: str, partitions: int = 2) -> dict[int, int]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody"})
    try:
        return {
            part: consumer.get_watermark_offsets(TopicPartition(topic, part), timeout=20)[1]
            for part in range(partitions)
        }
    finally:
        consumer.close()


def wait_for_checkpoint(data: Path, bootstrap: str, topic: str, partitions: int = 2) -> None:
    """Until the broker has written down that everything there may be read from its files."""
    ends = ends_of(bootstrap, topic, partitions)

    def is_there() -> bool:
        file = data / HIGH_WATERMARKS
        known = parse_offsets(file.read_bytes()) if file.exists() else {}
        return all(known.get((topic, part), 0) >= end for part, end in ends.items())  # type: ignore[call-overload]

    until(is_there, within=30, what=f"the checkpoint of {topic}")


def now_ms() -> int:
    return time.time_ns() // 1_000_000
