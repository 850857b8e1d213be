"""Groups of real clients whose members come, crash and go while records flow.

Every record is read by somebody, and no partition's offset ever goes back: the log of `__consumer_offsets` tells in
which order commits were taken, and a member that was thought dead must not have been believed after its successor.

Six groups at a time have their adventures, each on a topic of its own, because most of it is waiting for sessions:
half of them at a broker whose answers wait for the disk.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from broker_lite.coordinator.schemas import OffsetCommitKey, OffsetCommitValue, read
from tests.groups.workers import KINDS, Kind, Place, Worker, wait_until
from tests.support.broker import BrokerProcess
from tests.support.housekeeping import BUSY, as_arguments

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

PARTITIONS = 6
AT_ONCE = 6
DURABILITIES = ("os", "fsync")
SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "1",
    **BUSY,
}
Adventures = dict[tuple[str, str], "Future[None]"]
"""By the client's name and the durability of its broker."""


@pytest.fixture(scope="module")
def short_sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, BrokerProcess]]:
    """Brokers on which a member is dead after three seconds of silence, one for each durability."""
    with ExitStack() as stack:
        yield {
            durability: stack.enter_context(
                BrokerProcess(
                    tmp_path_factory.mktemp(f"groups-{durability}"),
                    ["--durability", durability, *as_arguments(SETTINGS)],
                )
            )
            for durability in DURABILITIES
        }


@pytest.fixture(scope="module")
def adventures(
    request: pytest.FixtureRequest, short_sessions: dict[str, BrokerProcess], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Adventures]:
    """Those of the clients that were asked for, under way."""
    asked = {item.callspec.params["kind"].name for item in request.session.items if hasattr(item, "callspec")
             and isinstance(item.callspec.params.get("kind"), Kind)}  # fmt: skip
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            (kind.name, durability): pool.submit(
                adventure, kind, broker.bootstrap, tmp_path_factory.mktemp(f"workers-{durability}")
            )
            for kind in KINDS
            for durability, broker in short_sessions.items()
            if kind.name in asked and kind.missing() is None
        }


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.replace(" ", "-"))
def test_every_record_is_read_and_no_offset_goes_back(
    kind: Kind, durability: str, adventures: Adventures, short_sessions: dict[str, BrokerProcess]
) -> None:
    if reason := kind.missing():
        pytest.skip(reason)
    adventures[kind.name, durability].result(240)
    commits = committed(short_sessions[durability].bootstrap, topic_of(kind))
    assert set(commits) == set(range(PARTITIONS))
    for partition, offsets in commits.items():
        assert offsets == sorted(offsets), f"partition {partition} went back"


def topic_of(kind: Kind) -> str:
    return f"of-{kind.name.replace(' ', '-')}"


class Flow:
    """Records that are written all the time, to every partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.written: set[Place] = set()
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            for partition in range(PARTITIONS):
                self._producer.produce(self._topic, b"x", partition=partition, on_delivery=self._delivered)
            self._producer.poll(0)
        self._producer.flush(20)

    def _delivered(self, error: object, message: object) -> None:
        assert error is None, error
        self.written.add((message.partition(), message.offset()))  # type: ignore[attr-defined]

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)


def adventure(kind: Kind, bootstrap: str, folder: Path) -> None:
    """Two come; one is killed; two come; the second leaves; those who are left read what there is."""
    topic = topic_of(kind)
    admin = AdminClient({"bootstrap.servers": bootstrap})  # its futures die with it
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(20)
    workers: list[Worker] = []

    def comes() -> Worker:
        workers.append(kind.start(len(workers), bootstrap, topic, folder))
        return workers[-1]

    def reads(worker: Worker) -> None:
        before = len(worker.read)
        wait_until(f"{worker.name} reads", lambda: len(worker.read) > before, *workers)

    flow = Flow(bootstrap, topic)
    try:
        first, second = comes(), comes()
        reads(first)
        reads(second)
        first.kill()
        third = comes()
        reads(third)
        reads(comes())
        second.leave()
        reads(third)
        flow.stop()
        wait_until("all is read", lambda: flow.written <= {place for one in workers for place in one.read}, *workers)
        for worker in workers[2:]:
            worker.leave()
    finally:
        flow.stop()
        for worker in workers:
            worker.end()


def committed(bootstrap: str, group: str) -> dict[int, list[int]]:
    """What the group committed, partition by partition, in the order in which it was taken."""
    found: dict[int, list[int]] = defaultdict(list)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "auditor", "enable.auto.commit": False})
    place = TopicPartition("__consumer_offsets", 0, 0)
    _, end = consumer.get_watermark_offsets(place, timeout=20)
    consumer.assign([place])
    while (message := consumer.poll(20)) is not None:
        assert message.error() is None, message.error()
        said = read(message.key() or b"", message.value())
        if said is not None and isinstance(said[0], OffsetCommitKey) and said[0].group == group:
            assert isinstance(said[1], OffsetCommitValue)
            found[said[0].partition].append(said[1].offset)
        if message.offset() == end - 1:
            break
    consumer.close()
    return found
