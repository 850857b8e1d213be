"""Apache Kafka's own command line tools: kafka-topics, the console producer and consumer, kafka-get-offsets and others.

Each verb is a process, as people use them.  The console producer writes lines, so records are text here.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

from tests.clients.client import READ_SECONDS, Client, ClientError, Record, Start
from tests.support import kafka_tools
from tests.support.cache import CACHE

TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
NULL = "∅"


@contextmanager
def _shared_classes() -> Iterator[str]:
    """The option that halves the start of a tool: the first one leaves the classes it loaded for those after it."""
    archive = CACHE / f"kafka-tools-{kafka_tools.VERSION}.jsa"
    if archive.exists():
        yield f"-XX:SharedArchiveFile={archive}"
        return
    making = archive.with_suffix(f".{os.getpid()}")
    archive.parent.mkdir(parents=True, exist_ok=True)
    yield f"-XX:ArchiveClassesAtExit={making}"
    if making.exists():
        making.rename(archive)


class ConsoleTools(Client):
    name = "java-tools"
    lacks = frozenset({"binary", "timestamps", "empty", "new-protocol", "twin-headers"})
    more_keys = MappingProxyType({"describe topic": frozenset({32})})
    exchanged = ("lz4",)
    costly = True

    def __init__(self) -> None:
        self.members: dict[str, tuple[str, str]] = {}

    def version(self) -> str:
        return kafka_tools.VERSION

    def _run(self, tool: str, *arguments: str, give: bytes = b"") -> str:
        jvm = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", "-Xlog:disable"]
        quiet = f"-Dlog4j2.configurationFile={kafka_tools.HOME / 'log4j2.properties'}"
        path = ["-cp", f"{kafka_tools.jars()}/*", tool, "--bootstrap-server", self.bootstrap]
        with _shared_classes() as sharing, tempfile.NamedTemporaryFile("w") as settings:
            if self.door is not None:
                settings.write("".join(f"{name}={value}\n" for name, value in self.door.properties().items()))
                settings.flush()
                arguments += ("--command-config", settings.name)
            command = ["java", *jvm, sharing, quiet, *path, *arguments]
            done = subprocess.run(command, input=give, capture_output=True, timeout=90, check=False)
        said, complaints = done.stdout.decode(), done.stderr.decode()
        if done.returncode != 0 or "ERROR" in complaints:
            name = tool.rpartition(".")[2]
            raise ClientError(f"{name} ended with {done.returncode}: {said[-300:]} {complaints[-700:]}")
        return said

    def api_versions(self) -> str:
        return self._run(VERSIONS)

    def create_topic(self, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        configs = [part for name, value in (config or {}).items() for part in ("--config", f"{name}={value}")]
        self._run(TOPICS, "--create", "--topic", topic, "--partitions", str(partitions), *configs)

    def delete_topic(self, topic: str) -> None:
        self._run(TOPICS, "--delete", "--topic", topic)

    def list_topics(self) -> list[str]:
        return self._run(TOPICS, "--list").split()

    def partitions_of(self, topic: str) -> int:
        return len(re.findall(r"\tPartition: \d+", self._run(TOPICS, "--describe", "--topic", topic)))

    def grow_topic(self, topic: str, partitions: int) -> None:
        self._run(TOPICS, "--alter", "--topic", topic, "--partitions", str(partitions))

    def set_config(self, topic: str, name: str, value: str) -> None:
        self._run(CONFIGS, "--alter", "--topic", topic, "--add-config", f"{name}={value}")

    def get_config(self, topic: str, name: str) -> str:
        found = re.search(
            rf"^  {re.escape(name)}=(\S+)", self._run(CONFIGS, "--describe", "--topic", topic), re.MULTILINE
        )
        return found[1] if found else ""

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: int = -1,
        idempotent: bool = False,
    ) -> list[int]:
        lines = "".join(self._line(record) for record in records)
        reading = [
            "parse.key=true",
            "parse.headers=true",
            "key.separator=\x1f",
            "headers.delimiter=\x1d",
            f"null.marker={NULL}",
        ]
        settings = [f"acks={acks}", f"enable.idempotence={str(idempotent).lower()}", "max.request.size=2000000"]
        arguments = [part for each in reading for part in ("--reader-property", each)]
        arguments += [part for each in settings for part in ("--command-property", each)]
        self._run(PRODUCER, "--topic", topic, "--compression-codec", codec, *arguments, give=lines.encode())
        return []

    @staticmethod
    def _line(record: Record) -> str:
        def text(data: bytes | None) -> str:
            return NULL if data is None else data.decode()

        headers = ",".join(f"{name}:{text(value)}" for name, value in record.headers) if record.headers else NULL
        return f"{headers}\x1d{text(record.key)}\x1f{text(record.value)}\n"

    def _consume(self, *arguments: str) -> list[Record]:
        shown = ["timestamp", "partition", "offset", "headers", "key", "value"]
        printing = [*(f"print.{each}=true" for each in shown), "key.separator=\x1f", f"null.literal={NULL}"]
        arguments += tuple(part for each in printing for part in ("--formatter-property", each))
        said = self._run(CONSUMER, *arguments, "--timeout-ms", str(int(READ_SECONDS * 1000)))
        return [self._parse(line) for line in said.splitlines() if "\x1f" in line]

    @staticmethod
    def _parse(line: str) -> Record:
        def data(text: str) -> bytes | None:
            return None if text == NULL else text.encode()

        stamp, partition, offset, headers, key, value = line.split("\x1f")
        pairs = [each.partition(":") for each in headers.split(",")] if headers != "NO_HEADERS" else []
        return Record(
            key=data(key),
            value=data(value),
            headers=tuple((name, data(text)) for name, _, text in pairs),
            timestamp=int(stamp.rpartition(":")[2]),
            partition=int(partition.rpartition(":")[2]),
            offset=int(offset.rpartition(":")[2]),
        )

    def read(
        self, topic: str, start: Start, count: int, *, partition: int = 0, committed: bool = False
    ) -> list[Record]:
        offset = start.offset
        if start.timestamp is not None:
            offset = self.offset_of(topic, start.timestamp, partition=partition)
        isolation = "read_committed" if committed else "read_uncommitted"
        where = [
            "--topic",
            topic,
            "--partition",
            str(partition),
            "--offset",
            str(offset),
            "--isolation-level",
            isolation,
        ]
        return self._consume(*where, "--max-messages", str(count))

    def offset_of(self, topic: str, at: int, *, partition: int = 0) -> int:
        said = self._run(OFFSETS, "--topic-partitions", f"{topic}:{partition}", "--time", str(at))
        return int(said.strip().rpartition(":")[2] or -1)

    def join(self, member: str, *, group: str, topic: str, protocol: str = "classic") -> None:
        """Nothing yet: the console consumer joins, reads, commits and leaves in one run."""
        self.members[member] = group, topic

    def take(self, member: str, count: int) -> list[Record]:
        group, topic = self.members[member]
        return self._consume("--topic", topic, "--group", group, "--from-beginning", "--max-messages", str(count))

    def commit(self, member: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Done when it left."""

    def leave(self, member: str) -> None:
        del self.members[member]

    def groups(self) -> list[str]:
        return self._run(GROUPS, "--list").split()

    def committed(self, group: str, topic: str) -> dict[int, int]:
        said = self._run(GROUPS, "--describe", "--group", group, "--offsets")
        found = re.findall(rf"^{re.escape(group)}\s+{re.escape(topic)}\s+(\d+)\s+(\d+)", said, re.MULTILINE)
        return {int(partition): int(offset) for partition, offset in found}

    def delete_group(self, group: str) -> None:
        self._run(GROUPS, "--delete", "--group", group)
