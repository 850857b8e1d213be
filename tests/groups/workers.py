"""Members that live in processes of their own, so that one can be killed: who they are and what they have read.

A worker is given bootstrap, group and topic, commits what it has read before it reads on, and says on its stdout

    ready                     it has subscribed
    read PARTITION OFFSET     a record, before it is committed
    refused …                 a commit was not taken, which is right for a member that is not one any more

SIGTERM makes it leave its group; SIGKILL does not.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.clients import build
from tests.support import cache, kafka_tools

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]
Place = tuple[int, int]
"""Partition and offset."""


class Worker:
    def __init__(self, name: str, command: Sequence[str], complaints: Path) -> None:
        self.name = name
        self.read: list[Place] = []
        self.refused: list[str] = []
        self._complaints = complaints
        with complaints.open("wb") as stderr:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=ROOT)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            words = line.split()
            if words and words[0] == "read" and len(words) == 3:
                self.read.append((int(words[1]), int(words[2])))
            elif words and words[0] == "refused":
                self.refused.append(line.strip())

    def kill(self) -> None:
        self.process.kill()
        self._end()

    def leave(self) -> None:
        self.process.terminate()
        self._end()

    def _end(self) -> None:
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.name} did not leave within 20 s: {self.story()}") from None
        finally:
            self._listener.join(5)

    def end(self) -> None:
        """Whatever it is doing."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def story(self) -> str:
        said = self._complaints.read_text(errors="replace")[-1500:]
        return f"{self.name} read {len(self.read)} records, was refused {len(self.refused)} commits; stderr: {said}"


@dataclass(slots=True, frozen=True)
class Kind:
    """A client, and how it takes part in groups."""

    name: str
    command: Callable[[], list[str]]
    protocol: str = ""
    missing: Callable[[], str | None] = lambda: None

    def start(self, number: int, bootstrap: str, topic: str, folder: Path) -> Worker:
        more = [self.protocol] if self.protocol else []
        name = f"{self.name.replace(' ', '-')}-{number}"
        return Worker(name, [*self.command(), bootstrap, topic, topic, *more], folder / f"{name}.stderr")


def wait_until(what: str, done: Callable[[], bool], *workers: Worker, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}\n" + "\n".join(each.story() for each in workers))
        time.sleep(0.02)


def _built(name: str, make: Callable[[Path], None]) -> Path:
    """The build of programs/<name>, in the user's cache; made once for each state of its sources."""
    return cache.kept(f"groups-{name}-{cache.digest(PROGRAMS, *cache.sources(PROGRAMS / name))}", make)


def _python(client: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", "tests.groups.worker", client]


def _java() -> list[str]:
    path = f"{kafka_tools.jars()}/*"
    out = _built(
        "java",
        lambda out: build.run("javac", "-nowarn", "-cp", path, "-d", str(out), "Worker.java", folder=PROGRAMS / "java"),
    )
    options = ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    quiet = f"-Dlog4j2.configurationFile={kafka_tools.HOME / 'log4j2.properties'}"
    return ["java", *options, quiet, "-cp", f"{out}:{path}", "Worker"]


def _go(client: str) -> Callable[[], list[str]]:
    def command() -> list[str]:
        out = _built(
            "go", lambda out: build.run("go", "build", "-o", f"{out}/", "./franz", "./sarama", folder=PROGRAMS / "go")
        )
        return [str(out / client)]

    return command


def _kafkajs() -> list[str]:
    def make(out: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(build.PROGRAMS / "kafkajs" / name, out)
        shutil.copy(PROGRAMS / "kafkajs" / "worker.js", out)
        build.run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", folder=out)

    return ["node", str(_built("kafkajs", make) / "worker.js")]


KINDS = [
    Kind("confluent-kafka classic", _python("confluent-kafka"), "classic"),
    Kind("confluent-kafka consumer", _python("confluent-kafka"), "consumer"),
    Kind("aiokafka", _python("aiokafka")),
    Kind("kafka-python", _python("kafka-python")),
    Kind("java eager", _java, "eager", lambda: build.lacking("java", "javac", "mvn")),
    Kind("java cooperative", _java, "cooperative", lambda: build.lacking("java", "javac", "mvn")),
    Kind("java consumer", _java, "consumer", lambda: build.lacking("java", "javac", "mvn")),
    Kind("franz-go", _go("franz"), missing=lambda: build.lacking("go")),
    Kind("sarama", _go("sarama"), missing=lambda: build.lacking("go")),
    Kind("kafkajs", _kafkajs, missing=lambda: build.lacking("node", "npm")),
]
