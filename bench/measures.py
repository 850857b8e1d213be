"""What is measured, which way is better, and how good it has to be against Apache Kafka."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

OURS, THEIRS = "broker-lite", "Apache Kafka"


@dataclass(slots=True, frozen=True)
class Measure:
    name: str
    unit: str
    bar: float | None
    """Ours divided by theirs must be at least this, or at most where less is better; None: told, not judged."""
    less_is_better: bool = False

    def met(self, ratio: float) -> bool:
        if self.bar is None:
            return True
        return ratio <= self.bar if self.less_is_better else ratio >= self.bar


@dataclass(slots=True, frozen=True)
class Case:
    """One way to write with ProducerPerformance and to read with ConsumerPerformance."""

    name: str
    partitions: int
    properties: tuple[str, ...] = ()

    @property
    def topic(self) -> str:
        return self.name.replace(" ", "-").replace(",", "")


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
START = Measure("start to first acknowledged record", "s", 0.1, less_is_better=True)
IDLE = Measure("memory when idle", "MiB", 1 / 8, less_is_better=True)
LOADED = Measure("memory after the load", "MiB", 1 / 5, less_is_better=True)
P50 = Measure("end-to-end latency, p50", "ms", 1.0, less_is_better=True)
P99 = Measure("end-to-end latency, p99", "ms", 1.0, less_is_better=True)
SMALL = Measure("small produces, 16 connections", "requests/s", 0.5)
COMMITS = Measure("offset commits, 16 connections", "requests/s", 0.7)
FETCHES = Measure("offset fetches, 16 connections", "requests/s", 0.7)
TRANSACTIONS = Measure("produce in transactions of 100 ms, 4 partitions", "records/s", 1.0)


def producing(case: Case) -> Measure:
    return Measure(f"produce, {case.name}", "records/s", 1.0)


def consuming(case: Case) -> Measure:
    return Measure(f"consume, {case.name}", "records/s", 1.0)


def cost_of(measure: Measure) -> Measure:
    """What it took of the processors, which tells more than the rate where client and broker share two cores."""
    return Measure(f"processor time of the broker: {measure.name}", "s for a million", None, less_is_better=True)


@dataclass(slots=True)
class Figures:
    """Every figure of every round, by measure and contender."""

    taken: dict[Measure, dict[str, list[float]]] = field(default_factory=dict)

    def note(self, measure: Measure, contender: str, figure: float) -> None:
        self.taken.setdefault(measure, {}).setdefault(contender, []).append(figure)

    def median(self, measure: Measure, contender: str) -> float | None:
        rounds = self.taken[measure].get(contender)
        return statistics.median(rounds) if rounds else None

    def ratio(self, measure: Measure) -> float | None:
        ours, theirs = self.median(measure, OURS), self.median(measure, THEIRS)
        if ours is None or not theirs:
            return None
        return ours / theirs
