"""What a chapter of the bench is given: brokers to measure, in turn, and a place for its figures."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.kfake import Kfake
from bench.measures import Figures, Growth, Measure
from bench.peer import ApacheKafka, BrokerLite, discard

Broker = BrokerLite | ApacheKafka | Kfake


class Say:
    """One line for each thing that is done, with the time since the begin."""

    def __init__(self) -> None:
        self.begin = time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"[{time.monotonic() - self.begin:6.1f} s] {text}", flush=True)


@dataclass(slots=True)
class Bench:
    folder: Path
    """Scratch, thrown away at the end."""
    rounds: int = 3
    quick: bool = False
    """Sizes that let a chapter end within a minute."""
    ours_only: bool = False
    say: Say = field(default_factory=Say)
    figures: Figures = field(default_factory=Figures)
    growths: dict[str, Growth] = field(default_factory=dict)

    def note(self, measure: Measure, contender: str, figure: float) -> None:
        self.figures.note(measure, contender, figure)

    def grow(self, title: str, x_label: str, y_label: str, contender: str, x: float, y: float) -> None:
        """A point of a line that shows how a cost grows; points of several rounds give their median."""
        growth = self.growths.setdefault(title, Growth(title, x_label, y_label))
        growth.points.setdefault(contender, {}).setdefault(x, []).append(y)

    def flat_within(self, title: str, bound: float) -> None:
        """Ours may cost no more than that many times at the end of the line what it costs at its beginning."""
        self.growths[title].flat_within = bound

    def contenders(
        self, ours: Sequence[str] = (), theirs: Mapping[str, str] | None = None, *, kfake: bool = False
    ) -> Iterator[Broker]:
        """In each round every broker once, started on a fresh folder, in an order that turns with the rounds."""
        for broker in self.prepared(ours, theirs, kfake=kfake):
            broker.start()
            yield broker

    def prepared(
        self, ours: Sequence[str] = (), theirs: Mapping[str, str] | None = None, *, kfake: bool = False
    ) -> Iterator[Broker]:
        """The same, not started yet: for those who set up more before."""
        for number in range(self.rounds):
            for broker in self._lineup(number, ours, theirs, kfake=kfake):
                self.say(f"round {number + 1} of {self.rounds}: {broker.name}")
                try:
                    yield broker
                finally:
                    broker.stop()
                    discard(broker.folder)

    def together(self, ours: Sequence[str] = (), *, kfake: bool = False) -> Iterator[list[Broker]]:
        """In each round all brokers at once, not started yet: for what is measured in turns of a few seconds."""
        for number in range(self.rounds):
            brokers = self._lineup(number, ours, kfake=kfake)
            self.say(f"round {number + 1} of {self.rounds}: {', '.join(broker.name for broker in brokers)}")
            try:
                yield brokers
            finally:
                for broker in brokers:
                    broker.stop()
                    discard(broker.folder)

    def _lineup(
        self, number: int, ours: Sequence[str], theirs: Mapping[str, str] | None = None, *, kfake: bool
    ) -> list[Broker]:
        """The brokers of a round, ready to be started, in an order that turns with the rounds."""
        folder = self.folder / str(time.monotonic_ns())
        brokers: list[Broker] = [BrokerLite(folder / "ours", *ours)]
        if not self.ours_only:
            brokers.append(ApacheKafka(folder / "theirs", theirs or {}))
            if kfake and Kfake.can_run():
                brokers.append(Kfake(folder / "kfake"))
        for broker in brokers:
            broker.prepare()
        turn = number % len(brokers)
        return brokers[turn:] + brokers[:turn]

    def ours_alone(self, what: str) -> Iterator[BrokerLite]:
        """In each round ours, started on a fresh folder: for what is judged by itself."""
        for number in range(self.rounds):
            self.say(f"round {number + 1} of {self.rounds}: {what}")
            broker = BrokerLite(self.folder / str(time.monotonic_ns()))
            broker.start()
            try:
                yield broker
            finally:
                broker.stop()
                discard(broker.folder)
