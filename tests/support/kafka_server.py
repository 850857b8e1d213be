"""A real Apache Kafka of one node, from the same jars as its tools: started, stopped, and started again."""

from __future__ import annotations

import base64
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.support import kafka_tools
from tests.support.sockets import free_port
from tests.support.waiting import until

START_WITHIN = 90.0
STOP_WITHIN = 60.0
_CLUSTER = base64.urlsafe_b64encode(bytes(range(1, 17))).rstrip(b"=").decode()


class KafkaServer:
    """`data` is Kafka's log folder; it is formatted by the first start and kept by all."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.more_listeners = ""
        """NAME://HOST:PORT, separated by commas, beside the plain one."""
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> KafkaServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def start(self) -> KafkaServer:
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = self.folder / "server.properties"
        settings.write_text("".join(f"{key}={value}\n" for key, value in self._properties().items()))
        if not (self.data / "meta.properties").exists():
            arguments = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(settings)]
            done = subprocess.run([*_java(), *arguments], capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, f"Kafka could not format its folder\n{done.stdout}\n{done.stderr}"
        with (self.folder / "log").open("ab") as out:
            self._process = subprocess.Popen([*_java(), "kafka.Kafka", str(settings)], stdout=out, stderr=out)
        until(self._answers, within=START_WITHIN, what=f"Kafka to come up, see {self.folder / 'log'}")
        return self

    def stop(self) -> None:
        """As an operator would: everything is on disk afterwards."""
        assert self._process is not None, "Kafka was never started"
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(STOP_WITHIN)
        assert code in (0, 143), f"Kafka ended with {code}, see {self.folder / 'log'}"

    def kill(self) -> None:
        assert self._process is not None, "Kafka was never started"
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"Kafka ended: {(self.folder / 'log').read_text()[-4000:]}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            return bool(admin.list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    def _properties(self) -> dict[str, str]:
        controller = free_port()
        public = ",".join(filter(None, (f"PLAINTEXT://{self.bootstrap}", self.more_listeners)))
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"{public},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": public,
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "5",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "3",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self._settings,
        }


def _java() -> list[str]:
    libs = kafka_tools.jars()
    quiet = f"-Dlog4j2.configurationFile={kafka_tools.HOME / 'log4j2.properties'}"
    return ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", quiet, "-cp", f"{libs}/*"]
