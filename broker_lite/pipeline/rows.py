"""The rows that Spark gets of a slice: Kafka's columns by the connector's names, in types that Spark has."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from broker_lite.pipeline.arrowlog import HEADERS
from broker_lite.pipeline.errors import Damaged
from broker_lite.pipeline.slices import Slice

CORRUPT = "_corrupt_record"
COLUMNS = {
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
PIECE_BYTES = 2 << 20
"""Java makes rows of a batch once it has the whole of it: with small ones it does so while the next is on its way, and
finds it in its cache; but each costs Spark's Python code something, too.  Half and twice of it are within the noise."""
_LARGEST_MS = (2**63 - 1) // 1000


class Part(InputPartition):
    def __init__(self, value: Slice) -> None:
        super().__init__(value)
        self.slice = value


def rows(part: Slice, names: list[str]) -> Iterator[pa.RecordBatch]:
    columns = {"timestamp_type" if name == "timestampType" else name for name in names}
    schema = pa.schema([(name, COLUMNS[name]) for name in names])
    topics, partitions = pa.array([], pa.string()), pa.array([], pa.int32())
    for found in part.rows({*columns, "offset"}):
        if isinstance(found, Damaged):
            if part.on_corrupt == "report":
                yield _told(part, found, schema)
            continue
        if len(topics) < len(found):  # the same for every piece, and made once for the longest
            topics = pa.repeat(pa.scalar(part.topic, pa.string()), len(found))
            partitions = pa.repeat(pa.scalar(part.partition, pa.int32()), len(found))
        made: list[pa.Array] = []
        for name in names:
            match name:
                case "topic":
                    made.append(topics[: len(found)])
                case "partition":
                    made.append(partitions[: len(found)])
                case "timestamp":
                    made.append(_microseconds(found["timestamp"]))
                case "timestampType":
                    made.append(found["timestamp_type"])
                case "_corrupt_record":
                    made.append(pa.nulls(len(found), pa.string()))
                case _:
                    made.append(found[name])
        yield from _pieces(pa.RecordBatch.from_arrays(made, schema=schema))


def _pieces(found: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of about PIECE_BYTES, without a copy."""
    step = max(1, len(found) * PIECE_BYTES // max(1, found.nbytes))
    for first in range(0, len(found), step):
        yield found.slice(first, step)


def _microseconds(times: pa.Array) -> pa.Array:
    """Spark counts in microseconds; what lies beyond its calendar becomes its last instant."""
    ms = times.view(pa.int64())
    ms = pc.min_element_wise(pc.max_element_wise(ms, -_LARGEST_MS), _LARGEST_MS)
    return pc.multiply(ms, 1000).view(COLUMNS["timestamp"])


def _told(part: Slice, damage: Damaged, schema: pa.Schema) -> pa.RecordBatch:
    values = {"topic": part.topic, "partition": part.partition, "offset": damage.offset, CORRUPT: str(damage)}
    return pa.RecordBatch.from_arrays([pa.array([values.get(one.name)], one.type) for one in schema], schema=schema)
