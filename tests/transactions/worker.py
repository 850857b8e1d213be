"""One client of the workload, in a process of its own so that it can be killed.

    python -m tests.transactions.worker producer|copier|reader BOOTSTRAP NAME INCARNATION FILE SEED

A producer writes transactions of a few records over two topics, a third of which it aborts, and moves money in pairs.
A copier reads what is committed in `in` and writes it to `out` in the same partition, offsets and records in one
transaction.  A reader reads committed records.  All of them write down what they do (see history.py) until killed.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.transactions.history import Json, Recorder

PARTITIONS = 4
IN, OTHER, OUT = "in", "other", "out"
GROUP = "copiers"
TIMEOUT_MS = 8000
PATIENT = {
    "reconnect.backoff.max.ms": 200,
    "log_level": 0,
    # librdkafka 2.16 starts over when its only broker is gone, and then waits for ever for the group coordinator that
    # it knew before.
    "metadata.recovery.strategy": "none",
}


class Fenced(Exception):
    """Somebody else has this transactional id now."""


class Worker:
    def __init__(self, bootstrap: str, name: str, incarnation: int, path: Path, seed: int) -> None:
        self.bootstrap, self.name, self.incarnation = bootstrap, name, incarnation
        self.record = Recorder(path)
        self.random = random.Random(seed)
        self.count = 0

    def producer(self) -> Producer:
        made = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": self.name,
                "transaction.timeout.ms": TIMEOUT_MS,
                "linger.ms": 1,
                **PATIENT,
                "socket.timeout.ms": 5000,
                "delivery.timeout.ms": 6000,
            }
        )
        began = time.monotonic()
        while True:
            try:
                made.init_transactions(30)
                break
            except KafkaException as error:
                _raise_if_fenced(error)
                if error.args[0].fatal():
                    raise
        self.record("init", name=self.name, incarnation=self.incarnation, began=began, at=time.monotonic())
        return made

    def begin(self, producer: Producer) -> str:
        self.count += 1
        txn = f"{self.name}-{self.incarnation}-{self.count}"
        self.record("txn", txn=txn, name=self.name, incarnation=self.incarnation, at=time.monotonic())
        producer.begin_transaction()
        return txn

    def send(self, producer: Producer, txn: str, topic: str, partition: int, value: str) -> None:
        facts: dict[str, Json] = {"txn": txn, "topic": topic, "partition": partition, "value": value}
        self.record("sent", **facts, offset=None)

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.record("sent", **facts, offset=message.offset())

        producer.produce(topic, value=value, partition=partition, on_delivery=delivered)

    def end(self, producer: Producer, txn: str, *, commit: bool) -> bool:
        """True if it is known how it ended and the producer can go on."""
        self.record("ending", txn=txn, commit=commit, at=time.monotonic())
        try:
            self._finish(producer, commit=commit)
            outcome = "committed" if commit else "aborted"
        except KafkaException as error:
            _raise_if_fenced(error)
            if not error.args[0].txn_requires_abort():
                self.record("ended", txn=txn, outcome="unknown", at=time.monotonic())
                return False
            # The broker said no: a commit that was refused is an abort.
            self._finish(producer, commit=False)
            outcome = "aborted"
        self.record("ended", txn=txn, outcome=outcome, at=time.monotonic())
        return True

    def _finish(self, producer: Producer, *, commit: bool) -> None:
        for _ in range(20):
            try:
                if commit:
                    producer.commit_transaction(10)
                else:
                    producer.abort_transaction(10)
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def _raise_if_fenced(error: KafkaException) -> None:
    if error.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
        raise Fenced from None


def produce(worker: Worker) -> None:
    producer = worker.producer()
    while True:
        txn = worker.begin(producer)
        for number in range(worker.random.randint(1, 5)):
            topic = worker.random.choice((IN, OTHER))
            worker.send(producer, txn, topic, worker.random.randrange(PARTITIONS), f"{txn}-{number}")
        amount = worker.random.randint(1, 100)
        for sign in (1, -1):
            worker.send(
                producer, txn, OTHER, worker.random.randrange(PARTITIONS), f"money:{sign * amount}:{txn}:{sign}"
            )
        producer.flush(5)
        if not worker.end(producer, txn, commit=worker.random.random() < 0.7):
            return
        time.sleep(worker.random.random() * 0.02)


def copy(worker: Worker) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": worker.bootstrap,
            "group.id": GROUP,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
            **PATIENT,
        }
    )
    consumer.subscribe([IN])
    producer = worker.producer()
    while True:
        messages = [message for message in consumer.consume(50, timeout=0.2) if message.error() is None]
        if not messages:
            continue
        txn = worker.begin(producer)
        following: dict[int, int] = {}
        for message in messages:
            value, partition, offset = message.value(), message.partition(), message.offset()
            assert value is not None
            assert partition is not None
            assert offset is not None
            worker.send(producer, txn, OUT, partition, f"copy of {value.decode()}")
            following[partition] = offset + 1
        for partition, offset in following.items():
            worker.record("offsets", txn=txn, group=GROUP, topic=IN, partition=partition, offset=offset)
        try:
            offsets = [TopicPartition(IN, partition, offset) for partition, offset in following.items()]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 10)
            commit = True
        except KafkaException as error:
            _raise_if_fenced(error)
            commit = False
        known = worker.end(producer, txn, commit=commit)
        if not known or not commit:
            return  # the next incarnation starts from what is committed


def read(worker: Worker) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": worker.bootstrap,
            "group.id": f"reader-{worker.name}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            **PATIENT,
        }
    )
    consumer.assign([TopicPartition(topic, part, 0) for topic in (IN, OTHER) for part in range(PARTITIONS)])
    while True:
        seen = [message for message in consumer.consume(200, timeout=0.5) if message.error() is None]
        if seen:
            worker.record(
                "polled",
                reader=f"{worker.name}-{worker.incarnation}",
                committed=True,
                at=time.monotonic(),
                records=[[m.topic(), m.partition(), m.offset(), (m.value() or b"").decode()] for m in seen],
            )


def main(arguments: list[str]) -> int:
    role, bootstrap, name, incarnation, path, seed = arguments
    worker = Worker(bootstrap, name, int(incarnation), Path(path), int(seed))
    try:
        {"producer": produce, "copier": copy, "reader": read}[role](worker)
    except Fenced:
        return 3
    except KafkaException as error:
        if error.args[0].code() == KafkaError._FENCED:
            return 3
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
