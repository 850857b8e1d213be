"""A load that goes on while its broker goes down and comes back, and what must be true of the log afterwards.

Idempotent producers write numbers, each to a partition of its own, as fast as they may.  Segments are small, so the end
falls into rolls, snapshots and background syncs as well.  One topic is compacted meanwhile, and every third end waits
until the cleaner is about to swap a segment.  At the end every partition is read from its start.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.broker import BrokerProcess

if TYPE_CHECKING:
    from confluent_kafka import Message

confluent_kafka = pytest.importorskip("confluent_kafka")

SEED = int(os.environ.get("BROKER_LITE_SEED") or random.SystemRandom().randrange(1 << 31))
PARTITIONS = 3
IN_FLIGHT = 2000
KEYS = 50
CLEANER_EVERY = 3
OPTIONS = (
    *("--topic", f"plain:{PARTITIONS},segment.bytes=65536"),
    *("--topic", f"kept:{PARTITIONS},cleanup.policy=compact,segment.bytes=32768,min.cleanable.dirty.ratio=0.01"),
    *("--set", "log.cleaner.backoff.ms=50"),
)


class Writer(threading.Thread):
    """Writes 0, 1, 2… to one partition until told to stop; then waits until all of it is acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        super().__init__(daemon=True)
        self.topic = topic
        self.partition = partition
        self.acknowledged: dict[int, int] = {}
        """Number -> offset."""
        self.errors: list[str] = []
        self.sent = 0
        self.stopping = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "batch.size": 16384,
                "message.timeout.ms": 0,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 50,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        while not self.stopping.is_set():
            if self.sent - len(self.acknowledged) - len(self.errors) < IN_FLIGHT:
                number = self.sent
                self._producer.produce(
                    self.topic,
                    key=b"%d" % (number % KEYS),
                    value=b"%d" % number + b"." * 100,
                    partition=self.partition,
                    on_delivery=lambda error, message, number=number: self._delivered(error, message, number),
                )
                self.sent += 1
                self._producer.poll(0)
            else:
                self._producer.poll(0.01)
        self._producer.flush(60)

    def _delivered(self, error: object, message: Message, number: int) -> None:
        if error is None:
            offset = message.offset()
            assert offset is not None
            self.acknowledged[number] = offset
        else:
            self.errors.append(f"{number}: {error}")


def read_all(bootstrap: str, topic: str) -> dict[int, list[tuple[int, int]]]:
    """Partition -> offset and number of each record, as a consumer gets them."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "x", "enable.partition.eof": True, "log_level": 0}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    left = set(range(PARTITIONS))
    deadline = time.monotonic() + 60
    while left:
        assert time.monotonic() < deadline, f"partitions {left} could not be read to their end"
        for message in consumer.consume(1000, 0.5):
            if message.error() is not None:
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
                left.discard(message.partition())
            else:
                number = int(message.value().rstrip(b"."))
                found[message.partition()].append((message.offset(), number))
    consumer.close()
    return found


def load_for_a_while(data: Path, cycle: int, chance: random.Random) -> None:
    """As long as chance will have it; now and then until the cleaner has something in hand, and a moment longer."""
    if cycle % CLEANER_EVERY:
        time.sleep(chance.uniform(0.05, 0.4))
        return
    deadline = time.monotonic() + 6
    while not cleaner_was_at_work(data) and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(chance.uniform(0, 0.01))


def cleaner_was_at_work(data: Path) -> bool:
    """There is a segment half copied, or one that has not quite taken its place."""
    return any(name.endswith((".cleaned", ".swap")) for folder in data.glob("kept-*") for name in os.listdir(folder))


def under_load(broker: BrokerProcess, cycles: int, *, then: Callable[[], None] = lambda: None) -> tuple[int, int]:
    """Kill it and start it `cycles` times, and look at what is left: all that was acknowledged, once, in order.

    `then` is done between the kill and the start. Returns how many kills met the cleaner, and how many records were
    acknowledged.
    """
    chance = random.Random(SEED)
    print(f"BROKER_LITE_SEED={SEED}")
    broker.start()
    writers = [Writer(broker.bootstrap, topic, n) for topic in ("plain", "kept") for n in range(PARTITIONS)]
    interrupted = 0
    try:
        for writer in writers:
            writer.start()
        for cycle in range(cycles):
            load_for_a_while(broker.data, cycle, chance)
            broker.kill()
            interrupted += cleaner_was_at_work(broker.data)
            then()
            broker.start()
        for writer in writers:
            writer.stopping.set()
        for writer in writers:
            writer.join(90)
            assert not writer.is_alive(), broker.story()
        found = {topic: read_all(broker.bootstrap, topic) for topic in ("plain", "kept")}
        broker.stop()
    finally:
        for writer in writers:
            writer.stopping.set()
        if broker.alive:
            broker.kill()
    for writer in writers:
        assert writer.errors == []
        assert len(writer.acknowledged) == writer.sent
        check(writer, found[writer.topic][writer.partition])
    return interrupted, sum(writer.sent for writer in writers)


def check(writer: Writer, records: list[tuple[int, int]]) -> None:
    numbers = [number for _, number in records]
    assert numbers == sorted(set(numbers)), "doubled or out of order"
    assert all(writer.acknowledged[number] == offset for offset, number in records), "at another offset"
    if writer.topic == "plain":
        assert numbers == list(range(writer.sent)), "lost"
    else:
        last = {number % KEYS: number for number in range(writer.sent)}
        assert set(last.values()) <= set(numbers), "the last value of a key was lost"
