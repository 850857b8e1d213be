"""Who takes part: each client of the matrix, how it is built, and what is missing when it cannot run here.

    python -m tests.clients.roster    builds everybody who is not built yet, and says how long each took

A build may take longer than a test may, so `make test` and `make matrix` do this first.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.clients import build
from tests.clients.client import Client


@dataclass(slots=True, frozen=True)
class Entry:
    name: str
    make: Callable[[Path], Client]
    """Builds what must be built and gives back the client; the folder takes its output."""
    missing: Callable[[], str | None] = lambda: None
    """A line that says what to install, when it cannot run on this machine."""
    heavy: bool = False
    """Takes minutes to install: `make matrix` runs it, `make test` does not."""


def _confluent(folder: Path) -> Client:
    from tests.clients.confluent import Confluent

    return Confluent()


def _kafka_python(folder: Path) -> Client:
    from tests.clients.kafkapython import KafkaPython

    return KafkaPython()


def _aiokafka(folder: Path) -> Client:
    from tests.clients.aio import AioKafka

    return AioKafka()


def _kcat(folder: Path) -> Client:
    from tests.clients.kcat import Kcat

    return Kcat()


def _console(folder: Path) -> Client:
    from tests.clients.console import ConsoleTools

    return ConsoleTools()


ROSTER = [
    Entry("confluent-kafka", _confluent),
    Entry("kafka-python", _kafka_python),
    Entry("aiokafka", _aiokafka),
    Entry("kcat", _kcat, lambda: build.lacking("kcat", hint="sudo apt-get install kcat")),
    Entry("franz-go", build.franz_go, lambda: build.lacking("go")),
    Entry("sarama", build.sarama, lambda: build.lacking("go")),
    Entry("kafka-go", build.kafka_go, lambda: build.lacking("go")),
    Entry("kafkajs", build.kafkajs, lambda: build.lacking("node", "npm")),
    Entry("platformatic-kafka", build.platformatic, heavy=True),
    Entry("rust-rdkafka", build.rust_rdkafka, lambda: build.lacking("cargo", "cc", "make"), heavy=True),
    Entry("java", build.java, lambda: build.lacking("java", "javac", "mvn")),
    Entry("java-2.8", build.java_28, lambda: build.lacking("java", "javac", "mvn")),
    Entry("streams", build.streams, lambda: build.lacking("java", "javac", "mvn")),
    Entry("streams-2.8", build.streams_28, lambda: build.lacking("java", "javac", "mvn")),
    Entry("java-tools", _console, lambda: build.lacking("java", "mvn")),
]

HEAVY = "BROKER_LITE_HEAVY_CLIENTS"
"""Set in the environment where heavy clients take part."""


def taking_part() -> list[Entry]:
    return [entry for entry in ROSTER if HEAVY in os.environ or not entry.heavy]


def build_all(folder: Path) -> None:
    for entry in taking_part():
        if (line := entry.missing()) is not None:
            print(f"{entry.name:<20} {line}")
            continue
        begin = time.monotonic()
        client = entry.make(folder)
        print(f"{entry.name:<20} {client.version():<8} {time.monotonic() - begin:6.1f} s", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        build_all(Path(scratch))
