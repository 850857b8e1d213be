"""The catalogue: how long it takes to make many topics, to tell of them and to delete them, and what they weigh.

Apache Kafka takes part as far as it can: with one node's default limits on memory maps it does not get to 50,000
partitions, of which each has two, so there ours stands alone against its own limits.  A partition is weighed when
somebody has asked for it and when a record was written to it; one that is only known by name weighs next to nothing.
Topics are deleted after each partition has its folder.  They are gone when nobody hears of them any more; Apache Kafka
leaves the folders for a minute longer, ours go at once, in the background.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from bench.chapter import Bench, Broker
from bench.measures import Measure
from bench.peer import BrokerLite, resident_mib
from bench.raw import CREATE_TOPICS, PRODUCE, Connection, frame, string
from broker_lite.records.build import NewRecord, build_batch

TITLE = "Topics"
CREATE = Measure("1,000 topics with 3 partitions each, made by one request", "s", 0.5, less_is_better=True)
ONE_BY_ONE = Measure("a topic with 3 partitions, made by a request of its own", "ms", None, less_is_better=True)
TELL = Measure("Metadata of 1,000 topics with 3 partitions, again", "ms", None, less_is_better=True)
TELL_FIRST = Measure("Metadata of 10,000 topics with 5 partitions, first", "s", less_is_better=True, limit=0.5)
TELL_AGAIN = Measure("Metadata of 10,000 topics with 5 partitions, again", "ms", less_is_better=True)
ASKED = Measure("memory for a partition that was asked for", "KiB", less_is_better=True, limit=20.0)
WRITTEN = Measure("memory for a partition that was written to", "KiB", less_is_better=True, limit=20.0)
DELETE = Measure("10,000 topics with 5 partitions are deleted", "s", less_is_better=True, limit=10.0)
CLEARED = Measure("their folders are gone, too", "s", less_is_better=True)

METADATA, LIST_OFFSETS, DELETE_TOPICS = 3, 2, 20
GROWTH = ("First Metadata of all topics, by their number", "topics", "milliseconds")
A_REQUEST = 1_000
PATIENCE = 300.0
PARTITIONS = 5


def run(bench: Bench) -> None:
    many, few = (100, 20) if bench.quick else (1_000, 100)
    for broker in bench.contenders():
        _both(bench, broker, many, few)
    for ours in bench.ours_alone("a large catalogue"):
        _large(bench, ours, 500 if bench.quick else 10_000)


def _both(bench: Bench, broker: Broker, many: int, few: int) -> None:
    """What both can do. A first, smaller go warms up, and is the begin of the line that shows the growth."""
    with Connection(broker.bootstrap, timeout=PATIENCE) as connection:
        known = 0
        for number, size in enumerate((few, many, many)):
            begun = time.perf_counter()
            _create(connection, [f"made-{number}-{one}" for one in range(size)], 3)
            took = time.perf_counter() - begun
            known += size
            bench.grow(*GROWTH, broker.name, known, _first_told(connection, known) * 1000)
        bench.note(CREATE, broker.name, took * 1_000 / many)
        bench.note(TELL, broker.name, min(_timed_tell(connection, known) for _ in range(5)) * 1000)
        begun = time.perf_counter()
        for one in range(few):
            _create(connection, [f"single-{one}"], 3)
        bench.note(ONE_BY_ONE, broker.name, (time.perf_counter() - begun) / few * 1000)


def _large(bench: Bench, ours: BrokerLite, topics: int) -> None:
    names = [f"many-{number}" for number in range(topics)]
    partitions = topics * PARTITIONS
    with Connection(ours.bootstrap, timeout=PATIENCE) as connection:
        _create(connection, names, PARTITIONS)
        before = resident_mib(ours.pid)
        first = _first_told(connection, topics)
        bench.note(TELL_FIRST, ours.name, first)
        bench.grow(*GROWTH, ours.name, topics, first * 1000)
        bench.note(TELL_AGAIN, ours.name, min(_timed_tell(connection, topics) for _ in range(5)) * 1000)
        _list_offsets(connection, names)
        bench.note(ASKED, ours.name, (resident_mib(ours.pid) - before) * 1024 / partitions)
        bench.say(f"a record for each of {partitions:,} partitions")
        _produce(connection, names)
        bench.note(WRITTEN, ours.name, (resident_mib(ours.pid) - before) * 1024 / partitions)
        begun = time.perf_counter()
        _delete(connection, names)
        if _told(connection):
            raise RuntimeError("deleted topics are still told")
        bench.note(DELETE, ours.name, time.perf_counter() - begun)
        while any(name.startswith("many-") for name in os.listdir(Path(ours.folder) / "data")):
            if time.perf_counter() - begun > PATIENCE:
                raise RuntimeError(f"folders of deleted topics are still there after {PATIENCE:g} s")
            time.sleep(0.02)
        bench.note(CLEARED, ours.name, time.perf_counter() - begun)


def _first_told(connection: Connection, topics: int) -> float:
    """The first answer after a change. Apache Kafka answers a creation before its broker knows of it: ask again."""
    deadline = time.monotonic() + PATIENCE
    while True:
        begun = time.perf_counter()
        if _told(connection) >= topics:
            return time.perf_counter() - begun
        if time.monotonic() > deadline:
            raise RuntimeError(f"{topics} topics were made and not all are told")
        time.sleep(0.05)


def _timed_tell(connection: Connection, topics: int) -> float:
    begun = time.perf_counter()
    told = _told(connection)
    took = time.perf_counter() - begun
    if told < topics:
        raise RuntimeError(f"{told} topics were told, {topics} are there")
    return took


def _told(connection: Connection) -> int:
    """Metadata v4 of everything; how many topics are in the answer."""
    answer = connection.ask(frame(METADATA, 4, struct.pack(">i?", -1, False)))
    at = 4 + 4  # correlation id, throttle time
    (brokers,) = struct.unpack_from(">i", answer, at)
    at += 4
    for _ in range(brokers):
        at = _skip(answer, _skip(answer, at + 4) + 4)
    at = _skip(answer, at) + 4  # cluster id, controller
    return int(struct.unpack_from(">i", answer, at)[0])


def _skip(answer: bytes, at: int) -> int:
    """A string, or none."""
    (size,) = struct.unpack_from(">h", answer, at)
    return at + 2 + max(0, int(size))


def _some(names: list[str], at_once: int) -> Iterator[list[str]]:
    for at in range(0, len(names), at_once):
        yield names[at : at + at_once]


def _create(connection: Connection, names: list[str], partitions: int) -> None:
    """CreateTopics v4, a thousand a request."""
    for some in _some(names, A_REQUEST):
        topics = b"".join(string(name) + struct.pack(">ihii", partitions, 1, 0, 0) for name in some)
        answer = connection.ask(
            frame(CREATE_TOPICS, 4, struct.pack(">i", len(some)) + topics + struct.pack(">i?", 60_000, False))
        )
        at = 4 + 4 + 4
        for _ in some:
            at = _skip(answer, at)
            (error,) = struct.unpack_from(">h", answer, at)
            if error:
                raise RuntimeError(f"a topic could not be made: error {error}")
            at = _skip(answer, at + 2)


def _delete(connection: Connection, names: list[str]) -> None:
    """DeleteTopics v3, all at once."""
    answer = connection.ask(
        frame(
            DELETE_TOPICS, 3, struct.pack(">i", len(names)) + b"".join(map(string, names)) + struct.pack(">i", 60_000)
        )
    )
    at = 4 + 4 + 4
    for _ in names:
        at = _skip(answer, at)
        (error,) = struct.unpack_from(">h", answer, at)
        if error:
            raise RuntimeError(f"a topic could not be deleted: error {error}")
        at += 2


def _list_offsets(connection: Connection, names: list[str]) -> None:
    """ListOffsets v4: the end of every partition."""
    ends = struct.pack(">i", PARTITIONS) + b"".join(struct.pack(">iiq", index, -1, -1) for index in range(PARTITIONS))
    for some in _some(names, A_REQUEST):
        topics = b"".join(string(name) + ends for name in some)
        connection.ask(frame(LIST_OFFSETS, 4, struct.pack(">ibi", -1, 0, len(some)) + topics))


def _produce(connection: Connection, names: list[str]) -> None:
    """Produce v7: one record for every partition."""
    batch = build_batch([NewRecord(None, b"x" * 100)], timestamp=int(time.time() * 1000))
    parts = struct.pack(">i", PARTITIONS) + b"".join(
        struct.pack(">ii", index, len(batch)) + batch for index in range(PARTITIONS)
    )
    for some in _some(names, 100):
        topics = b"".join(string(name) + parts for name in some)
        connection.ask(frame(PRODUCE, 7, struct.pack(">hhii", -1, -1, 60_000, len(some)) + topics))
