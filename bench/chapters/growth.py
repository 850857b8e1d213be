"""How costs grow, with Kafka's line beside ours: partitions, connections, groups, the size of the log and of a record.

Every point is what the broker takes of the processors for one small request, sent by the same generator; of the record
size it is megabytes a second, because there the bytes are the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle

from bench import tools
from bench.chapter import Bench, Broker
from bench.peer import cpu_seconds
from bench.raw import Connection, commit_error, commit_frame, create_topic, produce_error, produce_frame
from bench.small import Questions, hammer, wake_coordinator

TITLE = "How costs grow"
CONNECTIONS = 16
FILLER = 900_000
MICROSECONDS = "µs of processor time for a request"
BY_PARTITIONS = "A produce, by partitions"


def run(bench: Bench) -> None:
    quick = bench.quick
    seconds = 0.5 if quick else 2.0
    for broker in bench.contenders():
        _warm_up(broker, seconds)
        for count in (1, 100) if quick else (1, 10, 100, 2_000):
            _partitions(bench, broker, count, seconds)
        bench.flat_within(BY_PARTITIONS, 1.2)
        for count in (1, 16) if quick else (1, 4, 16, 64, 256):
            _connections(bench, broker, count, seconds)
        for count in (16, 100) if quick else (16, 100, 1_000, 5_000):
            _groups(bench, broker, count, seconds)
        for size in (100, 10_000) if quick else (100, 1_000, 10_000, 100_000):
            _record_size(bench, broker, size, 20_000_000 if quick else 200_000_000)
        _log_size(bench, broker, (0, 0.1) if quick else (0, 0.5, 1, 2), seconds)


def _cost(broker: Broker, requests: Sequence[Questions], error_in: Callable[[bytes], int], seconds: float) -> float:
    before = cpu_seconds(broker.pid)
    hit = hammer(broker.bootstrap, requests, error_in, seconds)
    return (cpu_seconds(broker.pid) - before) / hit.asked * 1e6


def _warm_up(broker: Broker, seconds: float) -> None:
    create_topic(broker.bootstrap, "warm-up", 1)
    _cost(broker, [produce_frame("warm-up", b"x" * 200)] * CONNECTIONS, partial(produce_error, "warm-up"), seconds * 2)


def _partitions(bench: Bench, broker: Broker, count: int, seconds: float) -> None:
    """Produces to all partitions in turn; each of them was written to before."""
    topic = f"of-{count}"
    create_topic(broker.bootstrap, topic, count)
    frames = [produce_frame(topic, b"x" * 200, partition=partition) for partition in range(count)]
    with Connection(broker.bootstrap) as connection:
        for frame in frames:
            connection.ask(frame)
    requests = [cycle(frames[number % count :: CONNECTIONS]) for number in range(CONNECTIONS)]
    cost = _cost(broker, requests, partial(produce_error, topic), seconds)
    bench.grow(BY_PARTITIONS, "partitions", MICROSECONDS, broker.name, count, cost)


def _connections(bench: Bench, broker: Broker, count: int, seconds: float) -> None:
    request = produce_frame("warm-up", b"x" * 200)
    cost = _cost(broker, [request] * count, partial(produce_error, "warm-up"), seconds)
    bench.grow("A produce, by connections", "connections", MICROSECONDS, broker.name, count, cost)


def _groups(bench: Bench, broker: Broker, count: int, seconds: float) -> None:
    """Commits of some groups while many hold an offset."""
    frames = [commit_frame(f"group-{number}", "warm-up", 1) for number in range(count)]
    wake_coordinator(broker.bootstrap)
    _cost(broker, frames[:1], partial(commit_error, "warm-up"), 0.1)
    with Connection(broker.bootstrap) as connection:
        for frame in frames:
            connection.ask(frame)
    cost = _cost(broker, frames[-CONNECTIONS:], partial(commit_error, "warm-up"), seconds)
    bench.grow("An offset commit, by groups", "groups", MICROSECONDS, broker.name, count, cost)


def _record_size(bench: Bench, broker: Broker, size: int, total: int) -> None:
    topic = f"size-{size}"
    create_topic(broker.bootstrap, topic, 4)
    rate = tools.produce(broker.bootstrap, topic, total // size // 4 if size < 1_000 else total // size, size=size)
    bench.grow("Producing, by record size", "bytes of a record", "MB/s", broker.name, size, rate * size / 1e6)


def _log_size(bench: Bench, broker: Broker, gigabytes: Sequence[float], seconds: float) -> None:
    topic, written = "filled", 0
    create_topic(broker.bootstrap, topic, 1)
    request, filler = produce_frame(topic, b"x" * 200), produce_frame(topic, b"x" * FILLER)
    for wanted in gigabytes:
        with Connection(broker.bootstrap) as connection:
            while written < wanted * 1e9:
                connection.ask(filler)
                written += FILLER
        cost = _cost(broker, [request] * CONNECTIONS, partial(produce_error, topic), seconds)
        bench.grow("A produce, by size of the log", "gigabytes in the log", MICROSECONDS, broker.name, wanted, cost)
