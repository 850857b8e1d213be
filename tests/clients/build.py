"""Build the programs of the clients that are not Python: once, in the user's cache, again when a source changed.

A build lies in a folder named after what went into it and appears there whole (it is made beside it and renamed), so a
build that was interrupted is not mistaken for one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.clients.client import Client
from tests.clients.process import ProcessClient
from tests.support import kafka_tools

PROGRAMS = Path(__file__).parent / "programs"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "broker-lite" / "clients"
BUILD_SECONDS = 300


class BuildFailed(AssertionError):
    """The compiler or the package manager said no; the message carries what it said."""


def lacking(*tools: str, hint: str = "") -> str | None:
    """One line about the tools that are not on this machine, or nothing."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if not missing:
        return None
    return f"needs {', '.join(missing)}" + (f"; to have it: {hint}" if hint else "")


def _built(name: str, make: Callable[[Path], None]) -> Path:
    """The folder with the build of programs/<name>, made now if it is not there yet."""
    digest = hashlib.sha256()
    for source in sorted((PROGRAMS / name).rglob("*")):
        if source.is_file():
            digest.update(source.relative_to(PROGRAMS).as_posix().encode() + source.read_bytes())
    final = CACHE / f"{name}-{digest.hexdigest()[:16]}"
    if not final.exists():
        making = CACHE / f"{name}-making-{os.getpid()}"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        make(making)
        making.rename(final)
    return final


def _run(*command: str, folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    if done.returncode != 0:
        raise BuildFailed(f"{' '.join(command)} failed\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")


def _go() -> Path:
    programs = ("./franz", "./sarama", "./kafkago")
    return _built("go", lambda out: _run("go", "build", "-o", f"{out}/", *programs, folder=PROGRAMS / "go"))


def _pinned(module: str) -> str:
    for line in (PROGRAMS / "go" / "go.mod").read_text().splitlines():
        if line.strip().startswith(f"{module} "):
            return line.split()[1].removeprefix("v")
    raise BuildFailed(f"go.mod does not name {module}")


def franz_go(folder: Path) -> Client:
    program = _go() / "franz"
    return ProcessClient("franz-go", _pinned("github.com/twmb/franz-go"), lambda: [str(program)], folder=folder)


def sarama(folder: Path) -> Client:
    program = _go() / "sarama"
    lacks = ["new-protocol"]
    return ProcessClient("sarama", _pinned("github.com/IBM/sarama"), lambda: [str(program)], lacks=lacks, folder=folder)


def kafka_go(folder: Path) -> Client:
    program = _go() / "kafkago"
    version = _pinned("github.com/segmentio/kafka-go")
    # it can ask for producer ids and end transactions, but its batches carry no producer; its reader gives back null
    # for what is empty
    lacks = ["new-protocol", "idempotent", "empty"]
    return ProcessClient("kafka-go", version, lambda: [str(program)], lacks=lacks, folder=folder)


def kafkajs(folder: Path) -> Client:
    def make(out: Path) -> None:
        for name in ("package.json", "package-lock.json", "driver.js"):
            shutil.copy(PROGRAMS / "kafkajs" / name, out)
        _run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", folder=out)

    program = _built("kafkajs", make) / "driver.js"
    # lz4 and zstd need add-ons in C that do not build everywhere; equal header names are grouped into one list
    lacks = ["new-protocol", "codec-lz4", "codec-zstd", "twin-headers"]
    client = ProcessClient("kafkajs", "2.2.4", lambda: ["node", str(program)], lacks=lacks, folder=folder)
    client.reads_in_groups = True
    client.more_keys = {"alter config": frozenset({33})}
    return client


def java(folder: Path) -> Client:
    path = f"{kafka_tools.jars()}/*"

    def make(out: Path) -> None:
        _run("javac", "-nowarn", "-cp", path, "-d", str(out), "Driver.java", folder=PROGRAMS / "java")

    built = _built("java", make)
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return ProcessClient(
        "java", kafka_tools.VERSION, lambda: ["java", *options, "-cp", f"{built}:{path}", "Driver"], folder=folder
    )
