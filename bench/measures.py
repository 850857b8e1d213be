"""What a figure is: which way is better, how good it has to be against Apache Kafka, and how a cost may grow."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

OURS, THEIRS, KFAKE = "broker-lite", "Apache Kafka", "kfake"


@dataclass(slots=True, frozen=True)
class Measure:
    name: str
    unit: str
    bar: float | None = None
    """Ours divided by theirs must be at least this, or at most where less is better; None: told, not judged."""
    less_is_better: bool = False
    limit: float | None = None
    """What ours must reach, or must not exceed where less is better, whatever the peer does."""

    def verdict(self, ours: float | None, ratio: float | None) -> bool | None:
        """Whether every bound is kept; None where there is none, or nothing to judge by."""
        kept = []
        if self.bar is not None and ratio is not None:
            kept.append(self._good(ratio, self.bar))
        if self.limit is not None and ours is not None:
            kept.append(self._good(ours, self.limit))
        return all(kept) if kept else None

    def _good(self, figure: float, bound: float) -> bool:
        return figure <= bound if self.less_is_better else figure >= bound


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

    def verdict(self, measure: Measure) -> bool | None:
        return measure.verdict(self.median(measure, OURS), self.ratio(measure))


@dataclass(slots=True)
class Growth:
    """How a cost grows with something: a line for each contender."""

    title: str
    x_label: str
    y_label: str
    points: dict[str, dict[float, list[float]]] = field(default_factory=dict)
    flat_within: float | None = None

    def line(self, contender: str) -> list[tuple[float, float]]:
        return sorted((x, statistics.median(ys)) for x, ys in self.points[contender].items())

    def factor(self, contender: str) -> float:
        """The last point by the first one."""
        line = self.line(contender)
        return line[-1][1] / line[0][1]
