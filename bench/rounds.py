"""One round for one broker: a fresh folder, a start that is timed, a rest, the load, the memory, the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import measures, tools
from bench.measures import Case, Figures, Measure
from bench.peer import ApacheKafka, BrokerLite, cpu_seconds, discard, resident_mib
from bench.raw import create_topic, first_acknowledged
from bench.small import Small, offset_commits, offset_fetches, small_produces


@dataclass(slots=True, frozen=True)
class Load:
    """How much of everything; the quick one fits into five minutes."""

    rounds: int = 3
    cases: Sequence[Case] = tuple(measures.CASES)
    records: int = 1_000_000
    warm_up: int = 300_000
    latency_records: int = 10_000
    small_seconds: float = 5.0
    idle_seconds: float = 5.0
    append_counts: Sequence[int] = (1, 10, 100, 2_000)
    append_gigabytes: Sequence[float] = (0, 1, 5)
    appends: int = 4_000


HAMMERS: dict[Measure, Callable[[str, float], Small]] = {
    measures.SMALL: small_produces,
    measures.COMMITS: offset_commits,
    measures.FETCHES: offset_fetches,
}
QUICK = Load(
    rounds=1,
    cases=tuple(case for case in measures.CASES if case.partitions == 4 or not case.properties),
    records=200_000,
    warm_up=100_000,
    latency_records=2_000,
    small_seconds=2.0,
    idle_seconds=2.0,
    append_counts=(1, 200),
    append_gigabytes=(0, 0.5),
    appends=2_000,
)


def one_round(broker: ApacheKafka | BrokerLite, load: Load, figures: Figures, say: Say) -> None:
    """Everything that is measured of a running broker, into the figures."""
    name = broker.name
    broker.prepare()
    begin = time.monotonic()
    broker.start()
    try:
        first_acknowledged(broker.bootstrap, "first")
        figures.note(measures.START, name, time.monotonic() - begin)
        time.sleep(load.idle_seconds)
        figures.note(measures.IDLE, name, resident_mib(broker.pid))
        _stress(broker, load, figures, say)
        figures.note(measures.LOADED, name, resident_mib(broker.pid))
    finally:
        broker.stop()
        discard(Path(broker.folder))


class Say:
    """One line for each thing that is done, with the time since the begin."""

    def __init__(self) -> None:
        self.begin = time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"[{time.monotonic() - self.begin:6.1f} s] {text}", flush=True)


def _stress(broker: ApacheKafka | BrokerLite, load: Load, figures: Figures, say: Say) -> None:
    name, bootstrap = broker.name, broker.bootstrap
    create_topic(bootstrap, "warm-up", 4)
    tools.produce(bootstrap, "warm-up", load.warm_up)
    for case in load.cases:
        create_topic(bootstrap, case.topic, case.partitions)
        used = [cpu_seconds(broker.pid)]
        written = tools.produce(bootstrap, case.topic, load.records, *case.properties)
        used.append(cpu_seconds(broker.pid))
        read = tools.consume(bootstrap, case.topic, load.records)
        used.append(cpu_seconds(broker.pid))
        for measure, rate, took in zip(
            (measures.producing(case), measures.consuming(case)),
            (written, read),
            (used[1] - used[0], used[2] - used[1]),
        ):
            figures.note(measure, name, rate)
            figures.note(measures.cost_of(measure), name, took / load.records * 1e6)
        say(f"{name}: {case.name}: wrote {written:,.0f}/s, read {read:,.0f}/s")
    create_topic(bootstrap, "latency", 1)
    latency = tools.end_to_end(bootstrap, "latency", load.latency_records)
    figures.note(measures.P50, name, latency.p50_ms)
    figures.note(measures.P99, name, latency.p99_ms)
    say(f"{name}: latency p50 {latency.p50_ms:g} p99 {latency.p99_ms:g} ms")
    for measure, hammer in HAMMERS.items():
        before = cpu_seconds(broker.pid)
        hit = hammer(bootstrap, load.small_seconds)
        rate = hit.per_second
        figures.note(measure, name, rate)
        figures.note(measures.cost_of(measure), name, (cpu_seconds(broker.pid) - before) / hit.asked * 1e6)
        say(f"{name}: {measure.name}: {rate:,.0f}/s")
    create_topic(bootstrap, "transactions", 4)
    rate = tools.produce(bootstrap, "transactions", load.records, in_transactions_of_ms=100)
    figures.note(measures.TRANSACTIONS, name, rate)
    say(f"{name}: {measures.TRANSACTIONS.name}: {rate:,.0f}/s")
