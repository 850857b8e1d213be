"""The two brokers of the bench as processes: Apache Kafka from its own jars, and ours.

Both are started the same way on a free port of the loopback, with their data in a folder that is thrown away, and both
can be asked for the memory they hold.  Apache Kafka is a single KRaft node with the settings one would choose for it:
a heap of 1 GiB and one replica of everything.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from bench.measures import OURS, THEIRS
from tests.support import kafka_tools

START_SECONDS = 60.0
_SCHEDULED = 2
"""CPUCLOCK_SCHED: the time that the scheduler gave."""
HEAP = "-Xmx1g"
CLUSTER = base64.urlsafe_b64encode(bytes(range(1, 17))).rstrip(b"=").decode()
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=5
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None:
                raise RuntimeError(f"{process.args!r:.200} ended with {process.returncode} before it served") from None
            if time.monotonic() > deadline:
                raise RuntimeError(f"nothing serves port {port} after {START_SECONDS:g} s") from None
            time.sleep(0.005)


def end(process: subprocess.Popen[bytes], *, kill: bool) -> None:
    process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Contender:
    """A broker of the bench: a process on a free port of the loopback, with a folder of its own."""

    name = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def command(self) -> list[str]:
        raise NotImplementedError

    def prepare(self) -> None:
        """What is not part of a start."""
        self.folder.mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """Return as soon as its port takes connections."""
        self.prepare()
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_for_port(self.port, self.process)
        except RuntimeError:
            end(self.process, kill=True)
            raise

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            end(self.process, kill=False)


class ApacheKafka(Contender):
    """One node that is broker and controller; the port is kept over restarts."""

    name = THEIRS

    def __init__(self, folder: Path, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(folder)
        self.properties = dict(properties or {})
        self.controller = free_port()

    def __enter__(self) -> ApacheKafka:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            end(self.process, kill=True)

    def describe(self) -> str:
        return f"Apache Kafka {kafka_tools.VERSION}"

    def _java(self) -> list[str]:
        quiet = f"-Dlog4j2.configurationFile={kafka_tools.HOME / 'log4j2.properties'}"
        return ["java", HEAP, quiet, "-cp", f"{kafka_tools.jars()}/*"]

    def command(self) -> list[str]:
        return [*self._java(), "kafka.Kafka", str(self.folder / "server.properties")]

    def prepare(self) -> None:
        """Write the settings and format the folder."""
        super().prepare()
        data, settings = self.folder / "data", self.folder / "server.properties"
        given = PROPERTIES.format(port=self.port, controller=self.controller, data=data)
        settings.write_text(given + "".join(f"{key}={value}\n" for key, value in self.properties.items()))
        if not (data / "meta.properties").exists():
            arguments = ["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(settings)]
            subprocess.run([*self._java(), *arguments], check=True, capture_output=True)

    def restart(self, *, kill: bool) -> None:
        assert self.process is not None
        end(self.process, kill=kill)
        self.start()


class BrokerLite(Contender):
    """Ours, as a user starts it."""

    name = OURS

    def __init__(self, folder: Path, *arguments: str) -> None:
        super().__init__(folder)
        self.arguments = arguments

    def command(self) -> list[str]:
        places = ["--listen", self.bootstrap, "--data", str(self.folder / "data")]
        return [sys.executable, "-m", "broker_lite", "serve", *places, *self.arguments]


def resident_mib(pid: int) -> float:
    """Memory that a process really holds, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} is gone")


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used since it began, in all its threads.

    By the clock that Linux keeps for each process (clock_getcpuclockid), because /proc counts in hundredths."""
    return time.clock_gettime(~pid << 3 | _SCHEDULED)


def discard(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def machine() -> str:
    """What it ran on, for the reader of the figures."""
    processors = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in processors if "model name" in line), "?")
    total = int(Path("/proc/meminfo").read_text().split()[1]) // 1024 // 1024
    return f"{os.cpu_count()} cores of {model}, {total} GiB, {os.uname().sysname} {os.uname().release}"
