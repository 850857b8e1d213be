"""The data path as clients feel it: starting, writing, reading, waiting, and what the broker takes for it.

In each round every broker is first started on a fresh folder with nothing beside it, timed, left at rest, and stopped.
Then all of them are up, and each load goes to one after the other, because what a machine gives changes from one minute
to the next.  Producing and consuming is done by Kafka's own tools, small requests by a generator that costs the same
for every broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench import tools
from bench.chapter import Bench, Broker
from bench.measures import Measure, cost_of
from bench.peer import cpu_seconds, resident_mib
from bench.raw import create_topic, first_acknowledged
from bench.small import Small, offset_commits, offset_fetches, small_produces

TITLE = "The data path"
START = Measure("start to first acknowledged record", "s", 0.1, less_is_better=True)
IDLE = Measure("memory when idle", "MiB", 1 / 8, less_is_better=True)
LOADED = Measure("memory after the load", "MiB", 1 / 5, less_is_better=True)
P50 = Measure("end-to-end latency, p50", "ms", 1.0, less_is_better=True)
P99 = Measure("end-to-end latency, p99", "ms", 1.0, less_is_better=True)
TRANSACTIONS = Measure("produce in transactions of 100 ms, 4 partitions", "records/s", 1.0)
HAMMERS: dict[Measure, Callable[[str, float], Small]] = {
    Measure("small produces, 16 connections", "requests/s", 0.5): small_produces,
    Measure("offset commits, 16 connections", "requests/s", 0.7): offset_commits,
    Measure("offset fetches, 16 connections", "requests/s", 0.7): offset_fetches,
}


@dataclass(slots=True, frozen=True)
class Case:
    """One way to write with ProducerPerformance and to read with ConsumerPerformance."""

    name: str
    partitions: int
    properties: tuple[str, ...] = ()

    @property
    def topic(self) -> str:
        return self.name.replace(" ", "-").replace(",", "")

    @property
    def producing(self) -> Measure:
        return Measure(f"produce, {self.name}", "records/s", 1.0)

    @property
    def consuming(self) -> Measure:
        return Measure(f"consume, {self.name}", "records/s", 1.0)


BATCHES: dict[str, tuple[str, ...]] = {
    "default batches": (),
    "64 KiB batches": ("batch.size=65536",),
    "lz4": ("compression.type=lz4",),
}
CASES = [
    Case(f"{batches}, {count} partition{'s' if count > 1 else ''}", count, properties)
    for count in (1, 4)
    for batches, properties in BATCHES.items()
]


NO_DELAY = ("--set", "group.initial.rebalance.delay.ms=0")
"""As Apache Kafka has it here: consuming begins with a group of one, which waits for nobody."""
NOTE = "in turns, with all brokers up and the same settings for new groups"


@dataclass(slots=True, frozen=True)
class Load:
    """How much of everything."""

    cases: Sequence[Case] = tuple(CASES)
    records: int = 1_000_000
    warm_up: int = 300_000
    latency_records: int = 30_000
    small_seconds: float = 5.0
    idle_seconds: float = 5.0
    turns: int = 2
    """Writing and reading takes seconds, many of them spent by the tool's JVM on itself: one look says little."""


QUICK = Load(
    cases=(CASES[0], CASES[-1]),
    records=200_000,
    warm_up=100_000,
    latency_records=2_000,
    small_seconds=1.0,
    idle_seconds=1.0,
    turns=1,
)


def run(bench: Bench) -> None:
    load = QUICK if bench.quick else Load()
    for brokers in bench.together(NO_DELAY, kfake=True):
        for broker in brokers:
            _start(broker, load, bench)
            broker.stop()
        for broker in brokers:
            broker.start()
            create_topic(broker.bootstrap, "warm-up", 4)
            tools.produce(broker.bootstrap, "warm-up", load.warm_up)
        for case in load.cases:
            for turn in range(load.turns):
                for broker in brokers:
                    _write(broker, case, f"{case.topic}-{turn}", load, bench)
                for broker in brokers:
                    _read(broker, case, f"{case.topic}-{turn}", load, bench)
        for broker in brokers:
            _transactions(broker, load, bench)
        for broker in brokers:
            _small_requests(broker, load, bench)
        for broker in brokers:
            bench.note(LOADED, broker.name, resident_mib(broker.pid))


def _start(broker: Broker, load: Load, bench: Bench) -> None:
    begin = time.monotonic()
    broker.start()
    first_acknowledged(broker.bootstrap, "first")
    bench.note(START, broker.name, time.monotonic() - begin)
    time.sleep(load.idle_seconds)
    bench.note(IDLE, broker.name, resident_mib(broker.pid))


def _write(broker: Broker, case: Case, topic: str, load: Load, bench: Bench) -> None:
    create_topic(broker.bootstrap, topic, case.partitions)
    before = cpu_seconds(broker.pid)
    rate = tools.produce(broker.bootstrap, topic, load.records, *case.properties)
    _note(bench, broker, case.producing, rate, load.records, since=before)


def _read(broker: Broker, case: Case, topic: str, load: Load, bench: Bench) -> None:
    before = cpu_seconds(broker.pid)
    rate = tools.consume(broker.bootstrap, topic, load.records)
    _note(bench, broker, case.consuming, rate, load.records, since=before)


def _transactions(broker: Broker, load: Load, bench: Bench) -> None:
    create_topic(broker.bootstrap, "transactions", 4)
    rate = tools.produce(broker.bootstrap, "transactions", load.records, in_transactions_of_ms=100)
    bench.note(TRANSACTIONS, broker.name, rate)
    bench.say(f"{broker.name}: {TRANSACTIONS.name}: {rate:,.0f}/s")


def _note(bench: Bench, broker: Broker, measure: Measure, rate: float, records: int, *, since: float) -> None:
    bench.note(measure, broker.name, rate)
    bench.note(cost_of(measure), broker.name, (cpu_seconds(broker.pid) - since) / records * 1e6)
    bench.say(f"{broker.name}: {measure.name}: {rate:,.0f}/s")


def _small_requests(broker: Broker, load: Load, bench: Bench) -> None:
    name, bootstrap = broker.name, broker.bootstrap
    create_topic(bootstrap, "latency", 1)
    latency = tools.end_to_end(bootstrap, "latency", load.latency_records)
    bench.note(P50, name, latency.p50_ms)
    bench.note(P99, name, latency.p99_ms)
    bench.say(f"{name}: latency p50 {latency.p50_ms:g} p99 {latency.p99_ms:g} ms")
    for measure, hammer in HAMMERS.items():
        before = cpu_seconds(broker.pid)
        hit = hammer(bootstrap, load.small_seconds)
        bench.note(measure, name, hit.per_second)
        bench.note(cost_of(measure), name, (cpu_seconds(broker.pid) - before) / hit.asked * 1e6)
        bench.say(f"{name}: {measure.name}: {hit.per_second:,.0f}/s")
