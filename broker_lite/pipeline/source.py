"""Spark data sources: `broker_lite`, one row a record, and `broker_lite_batches`, one row a batch.

    from broker_lite.pipeline.source import register
    register(spark)
    spark.read.format("broker_lite").option("path", "data").option("subscribe", "orders").load()

Schema, options and the JSON of offsets are those of Spark's Kafka connector; with `path` the records come from a data
folder, with `bootstrap` from a running broker, decoded by the same code.  The schema that a user gives is the
projection.

Writing is at least once: a task that Spark runs again writes its rows again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)

from broker_lite.pipeline import plan
from broker_lite.pipeline.arrowlog import BATCHES, batch_rows
from broker_lite.pipeline.errors import WrongOption
from broker_lite.pipeline.microbatches import StreamReader
from broker_lite.pipeline.options import Asked, WriteAsked, read_options, write_options
from broker_lite.pipeline.rows import COLUMNS, CORRUPT, Part, rows
from broker_lite.pipeline.slices import Slice
from broker_lite.pipeline.worker import end_quietly, settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

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
_SPARK_TYPES = {pa.string(): "STRING", pa.int64(): "BIGINT", pa.int32(): "INT", pa.bool_(): "BOOLEAN"}

end_quietly()  # whatever Spark asks a data source for, it asks in a process that imports this first


def register(spark: SparkSession) -> None:
    """Make both formats known to a session."""
    spark.dataSource.register(Records)
    spark.dataSource.register(BatchHeaders)


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
        return BatchReader(read_options(self.options, streaming=False), _known(schema.fieldNames(), COLUMNS))

    def streamReader(self, schema: StructType) -> StreamReader:
        return StreamReader(read_options(self.options, streaming=True), _known(schema.fieldNames(), COLUMNS))

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


class BatchReader(DataSourceReader):
    """Where there is nothing to read, Spark makes up a partition of its own, which is none of ours."""

    def __init__(self, asked: Asked, names: list[str]) -> None:
        self._asked, self._names = asked, names

    def partitions(self) -> Sequence[InputPartition]:
        settle()  # planning has a process of its own
        return [Part(one) for one in plan.batch_slices(self._asked)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        settle()
        return self._rows(partition.slice) if isinstance(partition, Part) else iter(())

    def _rows(self, part: Slice) -> Iterator[pa.RecordBatch]:
        return rows(part, self._names)


class HeaderReader(BatchReader):
    """All batches, control and damaged ones too; `fault` is set on a row that stands for bytes that are no batch."""

    def _rows(self, part: Slice) -> Iterator[pa.RecordBatch]:
        fields = [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            *zip(BATCHES.names, BATCHES.types),
            ("fault", pa.string()),
        ]
        types = dict(fields)
        schema = pa.schema([(name, types[name]) for name in self._names])
        for found, _, first in part.pieces():
            heads = batch_rows(found)
            heads = heads.filter(pc.greater_equal(heads["last_offset"], first))
            constant = {"topic": part.topic, "partition": part.partition, "fault": None}
            made = [
                pa.repeat(pa.scalar(constant[name], types[name]), len(heads)) if name in constant else heads[name]
                for name in self._names
            ]
            yield pa.RecordBatch.from_arrays(made, schema=schema)
            if found.fault is not None:
                told = {**constant, "fault": str(found.fault), "position": found.fault.position, "crc_ok": False}
                told["segment"] = found.where
                yield pa.RecordBatch.from_arrays(
                    [pa.array([told.get(name)], types[name]) for name in self._names], schema=schema
                )


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
