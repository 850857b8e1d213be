"""Small programs, one for each client that is not Python's: told a way to get in, they write a record and read it.

They are built like those of the client matrix, beside them in the same cache, from the same pinned packages.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.clients import build
from tests.support import cache, kafka_tools

PROGRAMS = Path(__file__).parent / "programs"
MATRIX = build.PROGRAMS


class Refused(Exception):
    """The client did not get in; the text is its own."""


class Driver:
    """One process that is asked one way after the other."""

    def __init__(self, command: list[str], environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **(environment or {})},
        )

    def enter(self, way: Mapping[str, str]) -> str:
        """The value that was written and read."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(way) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the program ended with {self._process.wait(5)}"
        told = json.loads(line)
        if "error" in told:
            raise Refused(told["error"])
        return str(told["ok"])

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def _built(name: str, sources: list[Path], make: Callable[[Path], None]) -> Path:
    """The folder with the build of these sources, made now if it is not there yet."""
    return cache.kept(f"security-{name}-{cache.digest(PROGRAMS.parents[1], *sources)}", make)


def _go() -> Path:
    shared = [MATRIX / "go" / name for name in ("go.mod", "go.sum", "scram/scram.go")]
    sources = [*sorted((PROGRAMS / "go").rglob("*.go")), *shared]

    def make(out: Path) -> None:
        shutil.copytree(PROGRAMS / "go", out / "source")
        for name in ("go.mod", "go.sum"):
            shutil.copy(MATRIX / "go" / name, out / "source")
        shutil.copytree(MATRIX / "go/scram", out / "source/scram")
        build.run("go", "build", "-o", f"{out}/", "./franz", "./sarama", folder=out / "source")

    return _built("go", sources, make)


def franz(folder: Path) -> Driver:
    return Driver([str(_go() / "franz")])


def sarama(folder: Path) -> Driver:
    return Driver([str(_go() / "sarama")])


def kafkajs(folder: Path) -> Driver:
    def make(out: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(MATRIX / "kafkajs" / name, out)
        shutil.copy(PROGRAMS / "kafkajs/driver.js", out)
        build.run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", folder=out)

    sources = [PROGRAMS / "kafkajs/driver.js", MATRIX / "kafkajs/package-lock.json"]
    return Driver(["node", str(_built("kafkajs", sources, make) / "driver.js")])


def java(folder: Path) -> Driver:
    path = f"{kafka_tools.jars()}/*"
    source = PROGRAMS / "java/Enter.java"

    def make(out: Path) -> None:
        build.run("javac", "-nowarn", "-cp", path, "-d", str(out), str(source), folder=out)

    built = _built("java", [source], make)
    quiet = f"-Dlog4j2.configurationFile={kafka_tools.HOME / 'log4j2.properties'}"
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", quiet]
    return Driver(["java", *options, "-cp", f"{built}:{path}", "Enter"])


DRIVERS: dict[str, tuple[Callable[[Path], Driver], tuple[str, ...]]] = {
    "franz-go": (franz, ("go",)),
    "sarama": (sarama, ("go",)),
    "kafkajs": (kafkajs, ("node", "npm")),
    "java": (java, ("java", "javac", "mvn")),
}
"""How each is made, and the tools that it needs."""
