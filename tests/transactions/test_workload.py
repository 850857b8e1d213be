"""Transactions under fire: clients and the broker are killed, and at the end every promise holds.

Eight producers, a copier and a reader; every two seconds one of them is killed or gets a twin with the same
transactional id, every ten seconds the broker is killed.  Its housekeeping runs every ten milliseconds, so that it
meets live transactions all the time.

    SECONDS=60 for each durability (default), SEED=… to repeat a run
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.support.broker import BrokerProcess
from tests.support.housekeeping import as_arguments
from tests.transactions.checker import check
from tests.transactions.history import History, Recorder
from tests.transactions.reading import to_the_end
from tests.transactions.worker import GROUP, IN, OTHER, OUT, PARTITIONS, TIMEOUT_MS

pytestmark = pytest.mark.clients

SECONDS = float(os.environ.get("SECONDS", "60"))
SEED = int(os.environ.get("SEED", str(random.randrange(10**6))))
TOPICS = (IN, OTHER, OUT)


@dataclass(slots=True)
class Role:
    kind: str
    name: str
    incarnation: int = 0
    process: subprocess.Popen[bytes] | None = None


class Crowd:
    """The clients, each restarted as its next incarnation when it ends."""

    def __init__(self, bootstrap: str, folder: Path, dice: random.Random) -> None:
        self.bootstrap, self.folder, self.dice = bootstrap, folder, dice
        self.roles = [Role("producer", f"p{number}") for number in range(8)]
        self.roles += [Role("copier", "copier"), Role("reader", "reader")]
        self.twins: list[subprocess.Popen[bytes]] = []

    def keep_alive(self) -> None:
        for role in self.roles:
            if role.process is None or role.process.poll() is not None:
                self.start(role)

    def start(self, role: Role) -> None:
        role.incarnation += 1
        path = self.folder / f"{role.name}.{role.incarnation}.jsonl"
        seed = str(self.dice.randrange(10**9))
        words = [role.kind, self.bootstrap, role.name, str(role.incarnation), str(path), seed]
        role.process = subprocess.Popen([sys.executable, "-m", "tests.transactions.worker", *words])

    def harm(self) -> None:
        role = self.dice.choice(self.roles)
        if role.process is not None and role.kind == "producer" and self.dice.random() < 0.5:
            self.twins.append(role.process)  # it lives on as a zombie; the new incarnation has to fence it
            self.start(role)
        elif role.process is not None:
            role.process.kill()
            role.process.wait()

    def end(self, *kinds: str) -> None:
        for role in self.roles:
            if role.process is not None and role.kind in kinds:
                role.process.kill()
                role.process.wait()
        for twin in self.twins if "producer" in kinds else ():
            twin.kill()
            twin.wait()


@pytest.mark.timeout(SECONDS * 2 + 240)
@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_every_transaction_is_there_whole_or_not_at_all(
    broker_process: Callable[..., BrokerProcess], tmp_path: Path, durability: str
) -> None:
    dice = random.Random(SEED)
    print(f"SEED={SEED} SECONDS={SECONDS:g}")
    broker = broker_process("--durability", durability, *as_arguments())
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in TOPICS]).values():
        made.result(30)
    crowd = Crowd(broker.bootstrap, tmp_path, dice)
    try:
        _rage(broker, crowd)
        crowd.end("producer")
        _until(lambda: _settled(broker.bootstrap, (IN, OTHER)), TIMEOUT_MS / 1000 + 60, "something holds up readers")
        _until(lambda: _copied(crowd, broker.bootstrap), 90, "the copier does not catch up")
    finally:
        crowd.end("producer", "copier", "reader")
    _until(lambda: _settled(broker.bootstrap, TOPICS), TIMEOUT_MS / 1000 + 60, "something holds up readers")
    _final_reads(broker.bootstrap, Recorder(tmp_path / "zz-final.jsonl"))
    history = History.read(tmp_path.glob("*.jsonl"))
    outcomes = [txn.outcome for txn in history.txns.values()]
    print({outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))})
    assert check(history, copied=(IN, OUT), total=0) == []
    assert outcomes.count("committed") > SECONDS, "too little happened to prove anything"


def _rage(broker: BrokerProcess, crowd: Crowd) -> None:
    start = time.monotonic()
    next_harm, next_kill = start + 2, start + 10
    while (now := time.monotonic()) < start + SECONDS:
        crowd.keep_alive()
        if now >= next_harm:
            crowd.harm()
            next_harm = now + 2
        if now >= next_kill:
            broker.kill()
            broker.restart()
            next_kill = now + 10
        time.sleep(0.05)


def _until(question: Callable[[], bool], seconds: float, complaint: str) -> None:
    end = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < end, complaint
        time.sleep(0.2)


def _ends(bootstrap: str, topics: tuple[str, ...], isolation: IsolationLevel) -> dict[tuple[str, int], int]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = {TopicPartition(topic, part): OffsetSpec.latest() for topic in topics for part in range(PARTITIONS)}
    answers = admin.list_offsets(asked, isolation_level=isolation)
    return {(place.topic, place.partition): answer.result(20).offset for place, answer in answers.items()}


def _settled(bootstrap: str, topics: tuple[str, ...]) -> bool:
    stable = _ends(bootstrap, topics, IsolationLevel.READ_COMMITTED)
    return stable == _ends(bootstrap, topics, IsolationLevel.READ_UNCOMMITTED)


def _group_offsets(bootstrap: str) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    places = [TopicPartition(IN, part) for part in range(PARTITIONS)]
    (answer,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP, places)]).values()
    return {place.partition: place.offset for place in answer.result(20).topic_partitions}


def _copied(crowd: Crowd, bootstrap: str) -> bool:
    """Has the copier committed past the last record that readers can see in each partition?"""
    copier = next(role for role in crowd.roles if role.kind == "copier")
    if copier.process is None or copier.process.poll() is not None:
        crowd.start(copier)
    done = _group_offsets(bootstrap)
    last = {part: max((offset for offset, _ in _read(bootstrap, IN, part)), default=-1) for part in range(PARTITIONS)}
    return all(done.get(part, -1) > last[part] or last[part] < 0 for part in range(PARTITIONS))


def _read(bootstrap: str, topic: str, partition: int, *, committed: bool = True) -> Iterator[tuple[int, str]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "final",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    try:
        for message in to_the_end(consumer):
            offset, value = message.offset(), message.value()
            assert offset is not None
            yield offset, (value or b"").decode()
    finally:
        consumer.close()


def _final_reads(bootstrap: str, record: Recorder) -> None:
    stable = _ends(bootstrap, TOPICS, IsolationLevel.READ_COMMITTED)
    high = _ends(bootstrap, TOPICS, IsolationLevel.READ_UNCOMMITTED)
    for topic, part in high:
        for committed in (True, False):
            record(
                "final",
                topic=topic,
                partition=part,
                committed=committed,
                high=high[topic, part],
                stable=stable[topic, part],
                records=[[offset, value] for offset, value in _read(bootstrap, topic, part, committed=committed)],
            )
    for part, offset in _group_offsets(bootstrap).items():
        record("group", group=GROUP, topic=IN, partition=part, offset=offset)
