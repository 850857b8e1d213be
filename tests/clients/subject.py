"""The broker under test: ours as a process, a real Apache Kafka started for comparison, or one that runs already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from tests.support.broker import BrokerProcess


class Subject(Protocol):
    @property
    def bootstrap(self) -> str: ...

    def describe(self) -> str: ...

    def restart(self, *, kill: bool) -> None: ...


@dataclass(slots=True)
class Ours:
    process: BrokerProcess

    @property
    def bootstrap(self) -> str:
        return self.process.bootstrap

    def describe(self) -> str:
        from broker_lite import __version__

        return f"broker-lite {__version__}"

    def restart(self, *, kill: bool) -> None:
        self.process.restart(kill=kill)


@dataclass(slots=True)
class Elsewhere:
    bootstrap: str

    def describe(self) -> str:
        return f"the broker at {self.bootstrap}"

    def restart(self, *, kill: bool) -> None:
        pytest.xfail("a broker that somebody else started is not ours to stop")


@contextmanager
def under_test(asked: str, folder: Path) -> Iterator[Subject]:
    if asked == "apache":
        from bench.peer import ApacheKafka

        with ApacheKafka(folder) as peer:
            yield peer
    elif asked:
        yield Elsewhere(asked)
    else:
        with BrokerProcess(folder) as process:
            yield Ours(process)
            if process.alive:
                process.stop()
