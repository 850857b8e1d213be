"""A client that lives in a process of its own: one JSON line asks, one JSON line answers.

A question is `{"verb": "produce", "bootstrap": "host:port", "topic": …}`; an answer is `{"ok": …}`, or
`{"error": "text"}` with `"fenced": true` or `"not_offered": true` beside it.  Keys, values and header values travel as
base64, null stays null.
The program is started on first use and asked by everybody after; one that does not answer in time is ended, so that the
next scenario gets a fresh one.
"""

from __future__ import annotations

import base64
import json
import queue
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import cast

from tests.clients.client import Client, ClientError, Fenced, NotOffered, Record, Start

ANSWER_SECONDS = 60.0
Json = dict[str, object]


def packed(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def unpacked(text: object) -> bytes | None:
    return None if text is None else base64.b64decode(cast(str, text))


def to_json(record: Record) -> Json:
    return {
        "key": packed(record.key),
        "value": packed(record.value),
        "headers": [[name, packed(value)] for name, value in record.headers],
        "timestamp": record.timestamp,
    }


def from_json(told: Json) -> Record:
    headers = cast("list[list[str]]", told.get("headers") or [])
    return Record(
        key=unpacked(told["key"]),
        value=unpacked(told["value"]),
        headers=tuple((name, unpacked(value)) for name, value in headers),
        timestamp=cast("int | None", told.get("timestamp")),
        partition=cast(int, told.get("partition", 0)),
        offset=cast(int, told.get("offset", -1)),
    )


class ProcessClient(Client):
    def __init__(
        self, name: str, version: str, command: Callable[[], Sequence[str]], *, lacks: Sequence[str] = (), folder: Path
    ) -> None:
        self.name = name
        self.lacks = frozenset(lacks)
        self._version = version
        self._command = command
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()

    def version(self) -> str:
        return self._version

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._answers = queue.Queue()
            with (self._folder / f"{self.name}.stderr").open("a") as complaints:
                self._process = subprocess.Popen(
                    self._command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, text=True
                )
            threading.Thread(target=self._listen, args=(self._process, self._answers), daemon=True).start()
        return self._process

    @staticmethod
    def _listen(process: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            answers.put(line)
        answers.put("")

    def _ask(self, verb: str, **asked: object) -> object:
        process = self._running()
        assert process.stdin is not None
        if self.door is not None:
            asked["door"] = asdict(self.door)
        process.stdin.write(json.dumps({"verb": verb, "bootstrap": self.bootstrap, **asked}) + "\n")
        process.stdin.flush()
        try:
            line = self._answers.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            self.close()
            raise ClientError(f"{verb}: no answer within {ANSWER_SECONDS:g} s") from None
        if not line:
            self.close()
            raise ClientError(f"{verb}: the program ended; its stderr is {self._folder}/{self.name}.stderr")
        told = json.loads(line)
        if "error" not in told:
            return told.get("ok")
        kind = NotOffered if told.get("not_offered") else Fenced if told.get("fenced") else ClientError
        raise kind(str(told["error"]))

    def _records(self, told: object) -> list[Record]:
        return [from_json(each) for each in cast("list[Json]", told or [])]

    def create_topic(self, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        self._ask("create_topic", topic=topic, partitions=partitions, config=dict(config or {}))

    def delete_topic(self, topic: str) -> None:
        self._ask("delete_topic", topic=topic)

    def list_topics(self) -> list[str]:
        return cast("list[str]", self._ask("list_topics"))

    def partitions_of(self, topic: str) -> int:
        return cast(int, self._ask("partitions_of", topic=topic))

    def grow_topic(self, topic: str, partitions: int) -> None:
        self._ask("grow_topic", topic=topic, partitions=partitions)

    def set_config(self, topic: str, name: str, value: str) -> None:
        self._ask("set_config", topic=topic, name=name, value=value)

    def get_config(self, topic: str, name: str) -> str:
        return cast(str, self._ask("get_config", topic=topic, name=name))

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
        listed = [to_json(record) for record in records]
        how = {"codec": codec, "acks": acks, "idempotent": idempotent}
        return cast("list[int]", self._ask("produce", topic=topic, partition=partition, records=listed, **how) or [])

    def read(
        self, topic: str, start: Start, count: int, *, partition: int = 0, committed: bool = False
    ) -> list[Record]:
        where = {"offset": start.offset, "timestamp": start.timestamp}
        told = self._ask("read", topic=topic, partition=partition, count=count, committed=committed, **where)
        return self._records(told)

    def offset_of(self, topic: str, at: int, *, partition: int = 0) -> int:
        return cast(int, self._ask("offset_of", topic=topic, partition=partition, at=at))

    def join(self, member: str, *, group: str, topic: str, protocol: str = "classic") -> None:
        self._ask("join", member=member, group=group, topic=topic, protocol=protocol)

    def take(self, member: str, count: int) -> list[Record]:
        return self._records(self._ask("take", member=member, count=count))

    def assigned(self, member: str) -> list[int]:
        return cast("list[int]", self._ask("assigned", member=member) or [])

    def commit(self, member: str, topic: str, offsets: Mapping[int, int]) -> None:
        self._ask("commit", member=member, topic=topic, offsets={str(p): o for p, o in offsets.items()})

    def leave(self, member: str) -> None:
        self._ask("leave", member=member)

    def groups(self) -> list[str]:
        return cast("list[str]", self._ask("groups"))

    def committed(self, group: str, topic: str) -> dict[int, int]:
        told = cast("dict[str, int]", self._ask("committed", group=group, topic=topic))
        return {int(partition): offset for partition, offset in told.items()}

    def delete_group(self, group: str) -> None:
        self._ask("delete_group", group=group)

    def open_producer(self, producer: str, transactional_id: str) -> None:
        self._ask("open_producer", producer=producer, transactional_id=transactional_id)

    def begin(self, producer: str) -> None:
        self._ask("begin", producer=producer)

    def send(self, producer: str, topic: str, records: Sequence[Record], *, partition: int = 0) -> None:
        listed = [to_json(record) for record in records]
        self._ask("send", producer=producer, topic=topic, partition=partition, records=listed)

    def send_offsets(self, producer: str, member: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        listed = {str(p): o for p, o in offsets.items()}
        self._ask("send_offsets", producer=producer, member=member, group=group, topic=topic, offsets=listed)

    def end(self, producer: str, *, commit: bool) -> None:
        self._ask("end", producer=producer, commit=commit)

    def close_producer(self, producer: str) -> None:
        self._ask("close_producer", producer=producer)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
