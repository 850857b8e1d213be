"""Groups: how fast many members settle, what they weigh, how soon a start knows their offsets, how soon two consumers
read.

Members are `bench.members`, on the wire and as small as can be.  Their brokers wait for nobody: Kafka's delay of three
seconds before a first generation is set to 0, which is our default.  The two consumers are confluent-kafka's and their
brokers have the settings that they come with.  Offsets are loaded from a million different places, which is the worst
case, because compaction leaves one record of each.
"""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from collections.abc import Callable, Coroutine

from confluent_kafka import Consumer, Producer

from bench.chapter import Bench, Broker
from bench.measures import Measure
from bench.members import Gathering, Wire, classic_member, consumer_member
from bench.peer import BrokerLite, resident_mib
from bench.raw import OFFSET_COMMIT, OFFSET_FETCH, Connection, create_topic, frame, string
from bench.small import wake_coordinator

TITLE = "Groups"
CLASSIC = Measure("500 members join and settle, classic protocol", "s", 1.5, less_is_better=True)
CONSUMER = Measure("500 members join and settle, consumer protocol", "s", 1.5, less_is_better=True)
MEMORY = Measure("memory for 1,000 groups of 3 members", "MiB more", less_is_better=True, limit=150.0)
REPLAY = Measure("start with 1,000,000 committed offsets, to the first answer", "s", less_is_better=True, limit=5.0)
PAUSE = Measure("longest wait of another client during that", "ms", less_is_better=True, limit=50.0)
REBALANCE = Measure("two confluent-kafka consumers, from join to first record", "s", 0.5, less_is_better=True)

Member = Callable[[Wire, Gathering, int], Coroutine[object, object, None]]
Task = asyncio.Task[None]
PATIENCE = 120.0
LOADING = {14, 15, 16}


def run(bench: Bench) -> None:
    members = 50 if bench.quick else 500
    for broker in bench.contenders():
        wake_coordinator(broker.bootstrap)
        _warm_up(broker)
        before = resident_mib(broker.pid)
        bench.note(MEMORY, broker.name, asyncio.run(_weigh(broker, 50 if bench.quick else 1_000)) - before)
        create_topic(broker.bootstrap, "wide", members)
        bench.note(CLASSIC, broker.name, asyncio.run(_settle(broker, "classic", members, classic_member)))
        bench.note(CONSUMER, broker.name, asyncio.run(_settle(broker, "consumer", members, consumer_member)))
    for broker in bench.contenders(theirs={"group.initial.rebalance.delay.ms": "3000"}):
        bench.note(REBALANCE, broker.name, _two_consumers(broker))
    for ours in bench.ours_alone("a start with many offsets"):
        _replay(bench, ours, 10 if bench.quick else 1_000)


def _warm_up(broker: Broker) -> None:
    """Coordinators are found, and Kafka has compiled what it needs."""
    create_topic(broker.bootstrap, "narrow", 3)
    asyncio.run(_settle(broker, "warm-classic", 3, classic_member, topic="narrow"))
    asyncio.run(_settle(broker, "warm-consumer", 3, consumer_member, topic="narrow"))


async def _settle(broker: Broker, group: str, members: int, member: Member, *, topic: str = "wide") -> float:
    """Seconds from the first word of the first member until everybody has its share."""
    wires = [await Wire.open(broker.bootstrap) for _ in range(members)]
    gathering = Gathering(group, topic, members, members)
    tasks = [asyncio.create_task(member(wire, gathering, number)) for number, wire in enumerate(wires)]
    await _until(gathering, tasks)
    await _end(tasks, wires)
    return gathering.took


async def _until(gathering: Gathering, tasks: list[Task]) -> None:
    """A member that fails ends the bench."""
    deadline = time.monotonic() + PATIENCE
    while not gathering.settled.is_set():
        for task in tasks:
            if task.done():
                task.result()
        if time.monotonic() > deadline:
            raise RuntimeError(f"group {gathering.group} did not settle within {PATIENCE:g} s")
        await asyncio.sleep(0.05)


async def _end(tasks: list[Task], wires: list[Wire]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for wire in wires:
        wire.close()


async def _weigh(broker: Broker, groups: int) -> float:
    """MiB that the broker holds while so many groups of three are alive, a connection for each member."""
    tasks: list[Task] = []
    wires: list[Wire] = []
    for first in range(0, groups, 50):
        gatherings = [Gathering(f"alive-{number}", "narrow", 3, 3) for number in range(first, min(groups, first + 50))]
        for gathering in gatherings:
            for number in range(3):
                wire = await Wire.open(broker.bootstrap)
                wires.append(wire)
                tasks.append(asyncio.create_task(classic_member(wire, gathering, number)))
        for gathering in gatherings:
            await asyncio.wait_for(gathering.settled.wait(), PATIENCE)
    held = resident_mib(broker.pid)
    await _end(tasks, wires)
    return held


# ---- two consumers


def _two_consumers(broker: Broker) -> float:
    """Seconds until both have read something, while somebody writes all the time."""
    create_topic(broker.bootstrap, "busy", 2)
    wake_coordinator(broker.bootstrap)
    stop = threading.Event()
    writer = threading.Thread(target=_write, args=(broker.bootstrap, stop))
    writer.start()
    read: dict[int, float] = {}
    begin = time.monotonic()
    try:
        readers = [threading.Thread(target=_read, args=(broker.bootstrap, number, read)) for number in range(2)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    finally:
        stop.set()
        writer.join()
    if len(read) < 2:
        raise RuntimeError(f"{broker.name}: only {len(read)} of two consumers read anything")
    return max(read.values()) - begin


def _write(bootstrap: str, stop: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    while not stop.wait(0.005):
        for partition in range(2):
            producer.produce("busy", b"x", partition=partition)
        producer.poll(0)
    producer.flush(10)


def _read(bootstrap: str, number: int, read: dict[int, float]) -> None:
    """Reads on until the other one has read, too: a group of two is what is timed."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "two", "auto.offset.reset": "earliest"})
    consumer.subscribe(["busy"])
    deadline = time.monotonic() + PATIENCE
    while len(read) < 2 and time.monotonic() < deadline:
        message = consumer.poll(0.05)
        if message is not None and message.error() is None and number not in read:
            read[number] = time.monotonic()
    consumer.close()


# ---- a start with many offsets


def _replay(bench: Bench, broker: BrokerLite, groups: int) -> None:
    """As many groups with a thousand offsets each; the last of them is asked for after the start."""
    create_topic(broker.bootstrap, "many", 1_000)
    wake_coordinator(broker.bootstrap)
    with Connection(broker.bootstrap, timeout=60) as connection:
        for number in range(groups):
            _check(connection.ask(_commits(f"group-{number:06}")))
    broker.stop()
    begin = time.monotonic()
    broker.start()
    worst = 0.0
    with Connection(broker.bootstrap) as asker, Connection(broker.bootstrap) as other:
        while True:
            asked = time.monotonic()
            other.ask(frame(18, 0, b""))
            worst = max(worst, time.monotonic() - asked)
            if all(_offset(asker, f"group-{number:06}") == 999 for number in (0, groups // 2, groups - 1)):
                break
            time.sleep(0.005)  # who asks all the time is what the broker is busy with
    bench.note(REPLAY, broker.name, time.monotonic() - begin)
    bench.note(PAUSE, broker.name, worst * 1000)


def _commits(group: str) -> bytes:
    """OffsetCommit v2 by nobody in particular, for a thousand partitions."""
    head = string(group) + struct.pack(">i", -1) + string("") + struct.pack(">qi", -1, 1)
    lines = b"".join(struct.pack(">iq", partition, partition) + string("") for partition in range(1_000))
    return frame(OFFSET_COMMIT, 2, head + string("many") + struct.pack(">i", 1_000) + lines)


def _check(answer: bytes) -> None:
    lines = answer[4 + 4 + 2 + len("many") + 4 :]
    errors = {error for _, error in struct.iter_unpack(">ih", lines)}
    if errors != {0}:
        raise RuntimeError(f"commits were refused: {errors}")


def _offset(connection: Connection, group: str) -> int:
    """What is committed for partition 999; -1 while it loads."""
    body = string(group) + struct.pack(">i", 1) + string("many") + struct.pack(">ii", 1, 999)
    answer = connection.ask(frame(OFFSET_FETCH, 1, body))
    (error,) = struct.unpack_from(">h", answer, len(answer) - 2)
    if error in LOADING:
        return -1
    if error:
        raise RuntimeError(f"the offset of {group} cannot be read: error {error}")
    return int(struct.unpack_from(">q", answer, 4 + 4 + 2 + len("many") + 4 + 4)[0])
