"""Rows into topics: built into batches here, acknowledged by the broker before the task is done.

Columns are those of Spark's connector: value, and if there are any key, headers, topic, partition; and `timestamp`,
which the connector does not know, so that what is replayed keeps its time.  A row's partition is the one it names, or
its key's as Kafka's own clients choose it, or without a key the next in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from broker_lite.client.client import Client
from broker_lite.client.partitioner import partition_for
from broker_lite.errors import BrokerError, ErrorCode
from broker_lite.ids import TopicPartition
from broker_lite.pipeline.errors import PipelineError, WrongOption
from broker_lite.pipeline.options import WriteAsked
from broker_lite.pipeline.remote import Remote
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.compression import Codec

if TYPE_CHECKING:
    from broker_lite.client.views import Produced

BATCH_BYTES = 256 << 10
_TOO_LARGE = {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}
_BYTES = ("binary", "string")
_KNOWN = {
    "key": _BYTES,
    "value": _BYTES,
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int", "bigint", "smallint", "tinyint"),
    "timestamp": ("timestamp",),
}
"""What can be written, and of which of Spark's types."""
_NOTHING = "void"
"""The type of a column that is always null."""


def check_columns(columns: Mapping[str, str], topic: str | None) -> None:
    """`columns`: name -> type, as Spark calls it."""
    for name, kind in columns.items():
        if name not in _KNOWN:
            raise WrongOption(f"column {name} cannot be written; there are {', '.join(sorted(_KNOWN))}")
        if kind not in (*_KNOWN[name], _NOTHING):
            raise WrongOption(f"column {name} is of type {kind}, but must be {' or '.join(_KNOWN[name])}")
    if "value" not in columns:
        raise WrongOption("there is no column value to be written")
    if topic is None and "topic" not in columns:
        raise WrongOption("which topic? give the option topic or a column topic")


class Sink:
    """Collects records by partition and sends a batch whenever there is enough for one."""

    def __init__(self, remote: Remote, codec: Codec = Codec.NONE, *, batch_bytes: int = BATCH_BYTES) -> None:
        self._remote, self._codec, self._batch_bytes = remote, codec, batch_bytes
        self._waiting: dict[TopicPartition, list[NewRecord]] = {}
        self._held: dict[TopicPartition, int] = {}
        self._counts: dict[str, int] = {}
        self._turn = 0
        self.written = 0

    def partitions(self, topic: str) -> int:
        if topic not in self._counts:

            async def ask(client: Client) -> int:
                return len((await client.patiently(lambda: client.topic(topic, create=True), topic=topic)).leaders)

            self._counts[topic] = self._remote.ask(ask)
        return self._counts[topic]

    def add(self, topic: str, partition: int | None, record: NewRecord) -> None:
        count = self.partitions(topic)
        if partition is None:
            partition = self._turn % count if record.key is None else partition_for(record.key, count)
        if not 0 <= partition < count:
            raise PipelineError(f"{topic} has no partition {partition}; it has {count}")
        one = TopicPartition(topic, partition)
        self._waiting.setdefault(one, []).append(record)
        held = self._held.get(one, 0) + len(record.key or b"") + len(record.value or b"") + 32
        held += sum(len(name) + len(value or b"") + 8 for name, value in record.headers)
        self._held[one] = held
        if held >= self._batch_bytes:
            self._send(one)

    def flush(self) -> None:
        for one in [one for one, records in self._waiting.items() if records]:
            self._send(one)

    def _send(self, one: TopicPartition) -> None:
        records = self._waiting.pop(one)
        self._held[one] = 0
        self._turn += 1
        self._send_all(one, records)

    def _send_all(self, one: TopicPartition, records: list[NewRecord]) -> None:
        """As one batch; in halves where the topic takes none so large, as Kafka's own producer does."""
        stamps = [record.timestamp for record in records if record.timestamp is not None]
        batch = build_batch(records, timestamp=stamps[0] if stamps else _now_ms(), codec=self._codec)

        async def send(client: Client) -> Produced | None:
            try:
                return await client.produce_batch(one.topic, one.partition, batch)
            except BrokerError as error:
                if error.code not in _TOO_LARGE or len(records) == 1:
                    raise
                return None

        if self._remote.ask(send) is not None:
            self.written += len(records)
            return
        middle = len(records) // 2
        self._send_all(one, records[:middle])
        self._send_all(one, records[middle:])


def _now_ms() -> int:
    import time

    return time.time_ns() // 1_000_000


def write_rows(asked: WriteAsked, rows: Iterable[pa.RecordBatch]) -> int:
    """Write all rows and return how many; every one is acknowledged by then."""
    with Remote(asked.bootstrap, asked.entry) as remote:
        sink = Sink(remote, Codec[asked.codec.upper()])
        for batch in rows:
            for topic, partition, record in records_in(batch, asked.topic):
                sink.add(topic, partition, record)
        sink.flush()
        return sink.written


def records_in(batch: pa.RecordBatch, topic: str | None = None) -> Iterable[tuple[str, int | None, NewRecord]]:
    """(topic, partition, record) of each row; the option wins over the column, as in Spark's connector."""
    count = len(batch)
    names = set(batch.schema.names)

    def column(name: str) -> list[object]:
        return batch[name].to_pylist() if name in names else [None] * count

    values = [one.encode() if isinstance(one, str) else one for one in column("value")]
    keys = [one.encode() if isinstance(one, str) else one for one in column("key")]
    stamps: Sequence[int | None] = [None] * count
    if "timestamp" in names:
        stamps = batch["timestamp"].cast(pa.timestamp("ms", tz="UTC"), safe=False).view(pa.int64()).to_pylist()
    topics = [topic] * count if topic is not None else column("topic")
    for name, part, key, value, headers, stamp in zip(
        topics, column("partition"), keys, values, column("headers"), stamps, strict=True
    ):
        if not isinstance(name, str):
            raise PipelineError("a row has no topic")
        assert part is None or isinstance(part, int)
        assert key is None or isinstance(key, bytes)
        assert value is None or isinstance(value, bytes)
        yield name, part, NewRecord(key, value, _headers(headers), stamp)


def _headers(told: object) -> tuple[tuple[str, bytes | None], ...]:
    if not isinstance(told, list):
        return ()
    return tuple((one["key"], one["value"]) for one in told)
