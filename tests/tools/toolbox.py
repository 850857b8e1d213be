"""The tools in one virtual machine (Tools.java), called by the names that they have in Kafka's distribution."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from tests.support import kafka_tools

_TOOLS = "org.apache.kafka.tools"
CLASSES = {
    "kafka-acls": f"{_TOOLS}.AclCommand",
    "kafka-broker-api-versions": f"{_TOOLS}.BrokerApiVersionsCommand",
    "kafka-client-metrics": f"{_TOOLS}.ClientMetricsCommand",
    "kafka-cluster": f"{_TOOLS}.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": f"{_TOOLS}.consumer.ConsoleConsumer",
    "kafka-consumer-groups": f"{_TOOLS}.consumer.group.ConsumerGroupCommand",
    "kafka-delegation-tokens": f"{_TOOLS}.DelegationTokenCommand",
    "kafka-delete-records": f"{_TOOLS}.DeleteRecordsCommand",
    "kafka-e2e-latency": f"{_TOOLS}.EndToEndLatency",
    "kafka-features": f"{_TOOLS}.FeatureCommand",
    "kafka-get-offsets": f"{_TOOLS}.GetOffsetShell",
    "kafka-groups": f"{_TOOLS}.GroupsCommand",
    "kafka-leader-election": f"{_TOOLS}.LeaderElectionCommand",
    "kafka-log-dirs": f"{_TOOLS}.LogDirsCommand",
    "kafka-metadata-quorum": f"{_TOOLS}.MetadataQuorumCommand",
    "kafka-reassign-partitions": f"{_TOOLS}.reassign.ReassignPartitionsCommand",
    "kafka-share-groups": f"{_TOOLS}.consumer.group.ShareGroupCommand",
    "kafka-streams-groups": f"{_TOOLS}.streams.StreamsGroupCommand",
    "kafka-topics": f"{_TOOLS}.TopicCommand",
    "kafka-transactions": f"{_TOOLS}.TransactionsCommand",
}


class Said(NamedTuple):
    code: int
    text: str

    @property
    def rows(self) -> list[list[str]]:
        """The words of each line."""
        return [line.split() for line in self.text.splitlines() if line]


class Toolbox:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        quiet = f"-Dlog4j2.configurationFile={kafka_tools.HOME / 'log4j2.properties'}"
        java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", quiet]
        program = str(Path(__file__).with_name("Tools.java"))
        self._machine = subprocess.Popen(
            [*java, "-cp", f"{kafka_tools.jars()}/*", program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def __enter__(self) -> Toolbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._machine.kill()
        self._machine.communicate()

    def __call__(self, command: str, *more: str) -> Said:
        """Run `kafka-topics --list`: the address comes by itself, `more` are words that have spaces."""
        name, *words = command.split()
        assert self._machine.stdin is not None
        assert self._machine.stdout is not None
        asked = [CLASSES[name], "--bootstrap-server", self.bootstrap, *words, *more]
        if name == "kafka-cluster":  # its verb comes first
            asked = [CLASSES[name], words[0], "--bootstrap-server", self.bootstrap, *words[1:]]
        print(json.dumps(asked), file=self._machine.stdin, flush=True)
        line = self._machine.stdout.readline()
        assert line, f"{command} took the virtual machine with it"
        answer = json.loads(line)
        return Said(answer["code"], answer["said"])

    def does(self, command: str, *more: str) -> Said:
        """The same, and it went well."""
        said = self(command, *more)
        assert said.code == 0, f"{command}\n{said.text}"
        assert "Exception" not in said.text, f"{command}\n{said.text}"
        return said
