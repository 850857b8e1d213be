"""Spark data sources: `broker_lite`, one row a record, and `broker_lite_batches`, one row a batch.

    from broker_lite.pipeline.source import register
    register(spark)
    spark.read.format("broker_lite").option("path", "data").option("subscribe", "orders").load()

Schema, options and the JSON of offsets are those of Spark's Kafka connector; with `path` the records come from a data
folder, with `bootstrap` from a running broker, decoded by the same code.  The schema that a user gives is the
projection.  A micro-batch is a range of offsets for each partition, written down by Spark before it is read, so each
offset is in exactly one committed micro-batch whatever happens between.

Writing is at least once: a task that Spark runs again writes its rows again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from broker_lite.ids import TopicPartition
from broker_lite.pipeline import plan
from broker_lite.pipeline.arrowlog import BATCHES, HEADERS, batch_rows
from broker_lite.pipeline.errors import Damaged, DataLost, WrongOption
from broker_lite.pipeline.folder import Bounds
from broker_lite.pipeline.options import Asked, WriteAsked, read_options, write_options
from broker_lite.pipeline.slices import Slice
from broker_lite.pipeline.worker import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

CORRUPT = "_corrupt_record"
_FIELDS = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
}
_HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
_ARROW = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS,
    CORRUPT: pa.string(),
}
_SPARK_TYPES = {pa.string(): "STRING", pa.int64(): "BIGINT", pa.int32(): "INT", pa.bool_(): "BOOLEAN"}
_LARGEST_MS = (2**63 - 1) // 1000

Offsets = dict[str, dict[str, int]]


def register(spark: SparkSession) -> None:
    """Make both formats known to a session."""
    spark.dataSource.register(Records)
    spark.dataSource.register(BatchHeaders)


class Part(InputPartition):
    def __init__(self, value: Slice) -> None:
        super().__init__(value)
        self.slice = value


class Records(DataSource):
    @classmethod
    def name(cls) -> str:
        return "broker_lite"

    def schema(self) -> str:
        told = {name.lower(): value for name, value in self.options.items()}
        fields = dict(_FIELDS)
        if told.get("includeheaders", "false").lower() == "true":
            fields["headers"] = _HEADERS
        if told.get("oncorrupt") == "report":
            fields[CORRUPT] = "STRING"
        return ", ".join(f"`{name}` {kind}" for name, kind in fields.items())

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(read_options(self.options, streaming=False), _known(schema.fieldNames(), _ARROW))

    def streamReader(self, schema: StructType) -> StreamReader:
        return StreamReader(read_options(self.options, streaming=True), _known(schema.fieldNames(), _ARROW))

    def writer(self, schema: StructType, overwrite: bool) -> Writer:
        return Writer(write_options(self.options), _types(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        return StreamWriter(write_options(self.options), _types(schema))


class BatchHeaders(DataSource):
    @classmethod
    def name(cls) -> str:
        return "broker_lite_batches"

    def schema(self) -> str:
        fields = [f"`{field.name}` {_SPARK_TYPES[field.type]}" for field in BATCHES]
        return ", ".join(["`topic` STRING", "`partition` INT", *fields, "`fault` STRING"])

    def reader(self, schema: StructType) -> HeaderReader:
        known = ["topic", "partition", *BATCHES.names, "fault"]
        # Slices are cut between batches unless somebody wants more of them; a batch must not be in two.
        asked = replace(read_options(self.options, streaming=False), min_partitions=None)
        return HeaderReader(asked, _known(schema.fieldNames(), known))


def _known(names: Sequence[str], known: Sequence[str] | dict[str, pa.DataType]) -> list[str]:
    for name in names:
        if name not in known:
            raise WrongOption(f"there is no column {name}; there are {', '.join(known)}")
    return list(names)


def _types(schema: StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def _rows(part: Slice, names: list[str]) -> Iterator[pa.RecordBatch]:
    columns = {"timestamp_type" if name == "timestampType" else name for name in names}
    schema = pa.schema([(name, _ARROW[name]) for name in names])
    for found in part.rows({*columns, "offset"}):
        if isinstance(found, Damaged):
            if part.on_corrupt == "report":
                yield _told(part, found, schema)
            continue
        made: list[pa.Array] = []
        for name in names:
            match name:
                case "topic":
                    made.append(pa.repeat(part.topic, len(found)).cast(pa.string()))
                case "partition":
                    made.append(pa.array(np.full(len(found), part.partition, dtype=np.int32)))
                case "timestamp":
                    made.append(_microseconds(found["timestamp"]))
                case "timestampType":
                    made.append(found["timestamp_type"])
                case "_corrupt_record":
                    made.append(pa.nulls(len(found), pa.string()))
                case _:
                    made.append(found[name])
        yield pa.RecordBatch.from_arrays(made, schema=schema)


def _microseconds(times: pa.Array) -> pa.Array:
    """Spark counts in microseconds; what lies beyond its calendar becomes its last instant."""
    ms = times.view(pa.int64())
    ms = pc.min_element_wise(pc.max_element_wise(ms, -_LARGEST_MS), _LARGEST_MS)
    return pc.multiply(ms, 1000).view(_ARROW["timestamp"])


def _told(part: Slice, damage: Damaged, schema: pa.Schema) -> pa.RecordBatch:
    values = {"topic": part.topic, "partition": part.partition, "offset": damage.offset, CORRUPT: str(damage)}
    return pa.RecordBatch.from_arrays([pa.array([values.get(one.name)], one.type) for one in schema], schema=schema)


class BatchReader(DataSourceReader):
    """Where there is nothing to read, Spark makes up a partition of its own, which is none of ours."""

    def __init__(self, asked: Asked, names: list[str]) -> None:
        self._asked, self._names = asked, names

    def partitions(self) -> Sequence[InputPartition]:
        settle()  # planning has a process of its own
        return [Part(one) for one in plan.batch_slices(self._asked)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        settle()
        if not isinstance(partition, Part):
            return iter(())
        return _rows(partition.slice, self._names)


class HeaderReader(BatchReader):
    """All batches, control and damaged ones too; `fault` is set on a row that stands for bytes that are no batch."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        settle()
        if not isinstance(partition, Part):
            return
        part = partition.slice
        fields = [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            *zip(BATCHES.names, BATCHES.types),
            ("fault", pa.string()),
        ]
        types = dict(fields)
        schema = pa.schema([(name, types[name]) for name in self._names])
        for found, _, first in part.pieces():
            rows = batch_rows(found)
            rows = rows.filter(pc.greater_equal(rows["last_offset"], first))
            constant = {"topic": part.topic, "partition": part.partition, "fault": None}
            made = [
                pa.repeat(pa.scalar(constant[name], types[name]), len(rows)) if name in constant else rows[name]
                for name in self._names
            ]
            yield pa.RecordBatch.from_arrays(made, schema=schema)
            if found.fault is not None:
                told = {**constant, "fault": str(found.fault), "position": found.fault.position, "crc_ok": False}
                told["segment"] = found.where
                yield pa.RecordBatch.from_arrays(
                    [pa.array([told.get(name)], types[name]) for name in self._names], schema=schema
                )


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, asked: Asked, names: list[str]) -> None:
        self._asked, self._names = asked, names
        self._target: dict[TopicPartition, Bounds] | None = None

    def initialOffset(self) -> Offsets:
        with plan.place_of(self._asked).opened() as source:
            bounds = plan.all_bounds(source, plan.choose(source, self._asked), committed=self._asked.committed)
            return _as_json(plan.edges(source, self._asked.start, bounds, self._asked, start=True))

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._asked.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._there()

    def _there(self) -> dict[TopicPartition, Bounds]:
        with plan.place_of(self._asked).opened() as source:
            return plan.all_bounds(source, plan.choose(source, self._asked), committed=self._asked.committed)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        there = self._target if self._target is not None else self._there()
        begun = _from_json(start)
        self._same_topics(begun, there)
        for one, known in there.items():
            if begun.get(one, 0) > known.end and self._asked.fail_on_loss:
                raise DataLost(
                    f"{one.topic}-{one.partition}: the checkpoint is at offset {begun[one]}, the log only goes to "
                    f"{known.end}: it was cut, or made anew"
                )
        new = {one: (begun.get(one, known.start), known.end) for one, known in there.items()}
        if isinstance(limit, ReadMaxRows):
            new = _at_most(new, limit.max_rows)
        return _as_json({one: end for one, (_, end) in new.items()})

    def reportLatestOffset(self) -> Offsets:
        return _as_json({one: known.end for one, known in self._there().items()})

    def _same_topics(self, begun: plan.Edges, now: Collection[TopicPartition]) -> None:
        """A checkpoint that knows partitions which are not read any more belongs to another query."""
        gone = sorted(set(begun) - set(now))
        if gone and self._asked.fail_on_loss:
            raise WrongOption(
                f"the checkpoint is of another query: it knows {gone[0].topic}-{gone[0].partition}, "
                "which is not read here"
            )

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        starts, ends = _from_json(start), _from_json(end)
        self._same_topics(starts, ends)
        with plan.place_of(self._asked).opened() as source:
            bounds = plan.all_bounds(source, ends, committed=self._asked.committed)
            begun = {one: starts.get(one, bounds[one].start) for one in ends}
            for one, known in bounds.items():
                if begun[one] < known.start and begun[one] < ends[one] and self._asked.fail_on_loss:
                    raise DataLost(
                        f"{one.topic}-{one.partition}: offset {begun[one]} is gone, the log begins at {known.start}"
                    )
                if ends[one] > known.end and self._asked.fail_on_loss:
                    raise DataLost(
                        f"{one.topic}-{one.partition}: the checkpoint goes to offset {ends[one]}, "
                        f"the log only to {known.end}"
                    )
            return [Part(one) for one in plan.slices_between(source, self._asked, bounds, begun, ends)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        settle()
        return _rows(cast(Part, partition).slice, self._names)


def _as_json(edges: plan.Edges) -> Offsets:
    out: Offsets = {}
    for one, offset in sorted(edges.items()):
        out.setdefault(one.topic, {})[str(one.partition)] = offset
    return out


def _from_json(offsets: Offsets) -> plan.Edges:
    return {TopicPartition(topic, int(part)): at for topic, parts in offsets.items() for part, at in parts.items()}


def _at_most(ranges: dict[TopicPartition, tuple[int, int]], most: int) -> dict[TopicPartition, tuple[int, int]]:
    """Each partition's share of `most` offsets, by how much it has; at least one where there is any."""
    total = sum(max(end - begin, 0) for begin, end in ranges.values())
    if total <= most:
        return ranges
    return {
        one: (begin, min(end, begin + max(1, (end - begin) * most // total)) if end > begin else end)
        for one, (begin, end) in ranges.items()
    }


class Writer(DataSourceArrowWriter):
    def __init__(self, asked: WriteAsked, columns: dict[str, str]) -> None:
        from broker_lite.pipeline.sink import check_columns

        check_columns(columns, asked.topic)
        self._asked = asked

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from broker_lite.pipeline.sink import write_rows

        write_rows(self._asked, iterator)
        return WriterCommitMessage()


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, asked: WriteAsked, columns: dict[str, str]) -> None:
        from broker_lite.pipeline.sink import check_columns

        check_columns(columns, asked.topic)
        self._asked = asked

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from broker_lite.pipeline.sink import write_rows

        write_rows(self._asked, iterator)
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What is written is written: there is nothing to undo or to make visible."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """See `commit`."""
