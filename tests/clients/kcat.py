"""kcat: librdkafka from the command line.

It writes one file as one record, so a record may hold any bytes; it reads with a format that gives the lengths first.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from tests.clients.client import EARLIEST, LATEST, READ_SECONDS, Client, ClientError, Headers, Record, Start

FORMAT = "%p %o %T %K %S %h\n%k%s\n"
END, MIDDLE = b"|end of record|", b"|key above|"
"""Longer than one byte, so that they hardly ever stand in a record by chance: one run writes many records."""


def _headers(text: str) -> Headers:
    """`name=value,name=value`; kcat quotes nothing, so values with a comma are not for it."""
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return tuple((name, value.encode("latin-1")) for name, _, value in pairs)


def _parse(output: bytes) -> list[Record]:
    records, at = list[Record](), 0
    while at < len(output):
        line_end = output.index(b"\n", at)
        partition, offset, stamp, key_size, value_size, *rest = output[at:line_end].decode("latin-1").split(" ", 5)
        sizes = int(key_size), int(value_size)
        key_at = line_end + 1
        value_at = key_at + max(sizes[0], 0)
        at = value_at + max(sizes[1], 0) + 1
        records.append(
            Record(
                key=output[key_at:value_at] if sizes[0] >= 0 else None,
                value=output[value_at : at - 1] if sizes[1] >= 0 else None,
                headers=_headers(rest[0] if rest else ""),
                timestamp=int(stamp),
                partition=int(partition),
                offset=int(offset),
            )
        )
    return records


class Kcat(Client):
    name = "kcat"
    # SCRAM: up to librdkafka 2.6.0 the nonce comes twice in its last message, which Kafka 4 refuses like this broker
    # retry: it ends as soon as no broker is connected
    lacks = frozenset({"empty", "timestamps", "header-binary", "SASL SCRAM over TLS", "idempotent retry"})

    def __init__(self) -> None:
        self.members: dict[str, tuple[str, str]] = {}

    def version(self) -> str:
        said = self._run("-V", bare=True).decode()
        found = re.search(r"Version (\S+)", said)
        return found[1] if found else ""

    def _run(self, *arguments: str, give: bytes = b"", bare: bool = False) -> bytes:
        entering = [f"-X{name}={value}" for name, value in (self.door.librdkafka() if self.door else {}).items()]
        command = ["kcat", *(() if bare else ("-b", self.bootstrap)), *entering, *arguments]
        try:
            done = subprocess.run(command, input=give, capture_output=True, timeout=READ_SECONDS + 10, check=False)
        except subprocess.TimeoutExpired as late:
            raise ClientError(f"{' '.join(command)} did not end: {(late.stderr or b'').decode()[-500:]}") from late
        if done.returncode != 0:
            raise ClientError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.decode()[-500:]}")
        return done.stdout

    def _listing(self, *arguments: str) -> list[Mapping[str, object]]:
        told: list[Mapping[str, object]] = json.loads(self._run("-L", "-J", *arguments))["topics"]
        return told

    def list_topics(self) -> list[str]:
        return [str(each["topic"]) for each in self._listing()]

    def partitions_of(self, topic: str) -> int:
        return len(cast("list[object]", self._listing("-t", topic)[0]["partitions"]))

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
        # linger.ms keeps what is given on stdin in one batch; a record of its own is one file
        settings = [
            f"acks={acks}",
            f"enable.idempotence={str(idempotent).lower()}",
            "message.timeout.ms=20000",
            "message.max.bytes=2000000",
            "linger.ms=20",
        ]
        how = ["-P", "-t", topic, "-p", str(partition), "-z", codec, *(f"-X{setting}" for setting in settings)]
        if all(r.key and r.value and not r.headers for r in records):
            lines = END.join((r.key or b"") + MIDDLE + (r.value or b"") for r in records)
            if lines.count(END) == len(records) - 1 and lines.count(MIDDLE) == len(records):
                self._run(*how, "-D", END.decode(), "-K", MIDDLE.decode(), give=lines)
                return []
        for record in records:
            self._write_one(how, record)
        return []

    def _write_one(self, how: Sequence[str], record: Record) -> None:
        key = ["-k", record.key.decode("latin-1")] if record.key is not None else []
        headers = [
            part for name, value in record.headers for part in ("-H", f"{name}={(value or b'').decode('latin-1')}")
        ]
        if record.value is None:
            self._run(*how, "-Z", "-K", "\x1f", give=(record.key or b"") + b"\x1f")
            return
        with tempfile.NamedTemporaryFile() as file:
            Path(file.name).write_bytes(record.value)
            self._run(*how, *key, *headers, file.name)

    def read(
        self, topic: str, start: Start, count: int, *, partition: int = 0, committed: bool = False
    ) -> list[Record]:
        where = f"s@{start.timestamp}" if start.timestamp is not None else str(start.offset)
        isolation = f"-Xisolation.level={'read_committed' if committed else 'read_uncommitted'}"
        how = ["-C", "-q", "-t", topic, "-p", str(partition), "-o", where, "-c", str(count), "-e", isolation]
        return _parse(self._run(*how, "-f", FORMAT))

    def offset_of(self, topic: str, at: int, *, partition: int = 0) -> int:
        said = self._run("-Q", "-t", f"{topic}:{partition}:{at}").decode()
        found = re.search(r"offset (-?\d+)", said)
        if found is None:
            raise ClientError(f"no offset in {said!r}")
        return int(found[1])

    def join(self, member: str, *, group: str, topic: str, protocol: str = "classic") -> None:
        """Nothing yet: kcat joins, reads, commits and leaves in one run."""
        self.members[member] = group, topic

    def take(self, member: str, count: int) -> list[Record]:
        group, topic = self.members[member]
        return _parse(
            self._run("-G", group, "-q", "-c", str(count), "-f", FORMAT, "-Xauto.offset.reset=earliest", topic)
        )

    def commit(self, member: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Done when it left."""

    def leave(self, member: str) -> None:
        del self.members[member]


assert {EARLIEST, LATEST} == {-2, -1}, "kcat -Q takes Kafka's own numbers"
