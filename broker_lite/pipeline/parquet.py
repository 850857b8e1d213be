"""One file of an archive, written by one worker: there whole or not at all."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from broker_lite.pipeline.arrowlog import RECORDS
from broker_lite.pipeline.errors import Damaged
from broker_lite.pipeline.slices import Slice
from broker_lite.pipeline.store import Store

SCHEMA = pa.schema([("topic", pa.string()), ("partition", pa.int32()), *RECORDS])
_DISTINCT = ("offset", "timestamp")
_LONG = ("value", "headers")
_LAYOUT = {
    # A dictionary of what hardly repeats is work for nothing, and nobody looks for the smallest value of a file.
    "use_dictionary": [
        *(name for name in SCHEMA.names if name not in (*_DISTINCT, "headers")),
        *("headers.list.element.key", "headers.list.element.value"),
    ],
    "write_statistics": [name for name in SCHEMA.names if name not in _LONG],
}
"""A fifth less of bytes and of time than with dictionaries and statistics of all columns, on values that repeat."""
ROW_GROUP_BYTES = 32 << 20
"""Each group of rows has dictionaries of its own.  With groups as small as what is decoded at a time, files of values
that repeat are twice as large and take 6 % longer; with larger ones a worker holds more, for nothing."""


@dataclass(frozen=True, slots=True)
class Task:
    slice: Slice
    out: str
    file: str
    codec: str


@dataclass(frozen=True, slots=True)
class Written:
    records: int
    bytes: int
    left_out: int
    """Batches that were damaged."""


def write_file(task: Task) -> Written:
    """One file, on a worker. Killed anywhere, it leaves at most a file that no reader looks at."""
    store = Store(task.out)
    half = f".{task.file}.{uuid.uuid4().hex}.tmp"
    try:
        written = _write_half(store, half, task)
    except BaseException:
        if store.exists(half):
            store.remove(half)
        raise
    store.finish(half, task.file)
    return written


def _write_half(store: Store, half: str, task: Task) -> Written:
    records = left_out = held = 0
    group: list[pa.RecordBatch] = []
    with store.create(half) as out:
        with pq.ParquetWriter(out, SCHEMA, compression=task.codec, **_LAYOUT) as parquet:
            for rows in task.slice.rows():
                if isinstance(rows, Damaged):
                    left_out += 1
                    continue
                topic = pa.repeat(task.slice.topic, len(rows)).cast(pa.string())
                partition = pa.array(np.full(len(rows), task.slice.partition, dtype=np.int32))
                group.append(pa.RecordBatch.from_arrays([topic, partition, *rows.columns], schema=SCHEMA))
                records += len(rows)
                held += rows.nbytes
                if held >= ROW_GROUP_BYTES:
                    parquet.write_table(pa.Table.from_batches(group))
                    group, held = [], 0
            if group:
                parquet.write_table(pa.Table.from_batches(group))
        size = int(out.tell())
    return Written(records, size, left_out)
