"""Segments as Arrow tables, without Spark: one row a record, or one row a batch.

    batches = scan(data, "orders-0/00000000000000000000.log")
    table = pa.Table.from_batches(records(batches))          # key, value, offset, timestamp, timestamp_type, headers
    rows = batch_rows(batches)                               # the header of each batch, and whether its checksum holds

`records` leaves out control batches, which are not data.  The checksum of a batch is looked at before anything else
in it; then every bound (see records.py).  What does not hold is a `Damaged` that names the file, the byte and the
batch's offset.  One call inflates at most GROUP_BYTES (and a batch) at a time, so memory does not depend on how well
a log is compressed.

Timestamps are milliseconds, as Kafka has them.  A record without headers has null there, and the timestamp type is
0 for CreateTime, 1 for LogAppendTime and -1 for messages of magic 0, which have no timestamp.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from broker_lite.errors import BrokerError
from broker_lite.pipeline import messagesets
from broker_lite.pipeline.errors import BadRecord
from broker_lite.pipeline.inflating import Unusual, at_once, inflater, side_by_side
from broker_lite.pipeline.records import Fields, Lanes, Wrong, read_headers, read_records
from broker_lite.pipeline.scan import Batches, each_kind, find_next, scan
from broker_lite.pipeline.varints import PADDING, Bytes, Ints, Mask, padded
from broker_lite.records.batch import HEADER_SIZE
from broker_lite.records.compression import Codec
from broker_lite.records.record import MAX_INFLATED

__all__ = ["BATCHES", "HEADERS", "RECORDS", "Batches", "batch_rows", "find_next", "records", "scan"]

HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
RECORDS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("timestamp_type", pa.int32()),
        ("headers", HEADERS),
    ]
)
BATCHES = pa.schema(
    [
        ("segment", pa.string()),
        ("position", pa.int64()),
        ("size", pa.int32()),
        ("base_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("count", pa.int32()),
        ("magic", pa.int32()),
        ("codec", pa.string()),
        ("timestamp_type", pa.int32()),
        ("base_timestamp", pa.int64()),
        ("max_timestamp", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("base_sequence", pa.int32()),
        ("transactional", pa.bool_()),
        ("control", pa.bool_()),
        ("marker", pa.string()),
        ("crc_ok", pa.bool_()),
    ]
)
_CODECS = np.array([codec.name.lower() for codec in Codec] + ["unknown"] * 3)


def records(
    batches: Batches,
    *,
    keep: Mask | None = None,
    sound: Mask | None = None,
    first: int | None = None,
    end: int | None = None,
    columns: Collection[str] = tuple(RECORDS.names),
    max_inflated: int = MAX_INFLATED,
) -> Iterator[pa.RecordBatch]:
    """Records with first <= offset < end of the batches in `keep` (all), without control batches.

    `sound` is the verdict of `batches.sound()` where somebody has asked for it already.
    """
    chosen = ~batches.is_control
    if keep is not None:
        chosen &= keep
    if first is not None:
        chosen &= batches.last_offset >= first
    if end is not None:
        chosen &= batches.base_offset < end
    verdict = batches.sound() if sound is None else sound
    wrong = np.flatnonzero(chosen & ~verdict)
    if wrong.size:
        raise batches.wrong_checksum(int(wrong[0]))
    for old, indexes in each_kind(batches, np.flatnonzero(chosen)):
        if old:
            yield _old_rows(batches, indexes, first, end, columns, max_inflated)
            continue
        for group, data, starts, ends in _payloads(batches, indexes, max_inflated):
            yield _rows(batches, group, Lanes(data, starts, ends, *_counts(batches, group)), first, end, columns)


def _counts(batches: Batches, group: Ints) -> tuple[Ints, Ints]:
    columns = batches.columns
    return columns["count"][group], columns["last_offset"][group] - columns["base_offset"][group]


def _payloads(batches: Batches, indexes: Ints, max_inflated: int) -> Iterator[tuple[Ints, Bytes, Ints, Ints]]:
    """(batches, their payloads in one array, where each begins, where it ends), at most GROUP_BYTES at a time."""
    if not batches.codec[indexes].any():
        start, end = _spans(batches, indexes)
        data = np.frombuffer(batches.buf, dtype=np.uint8)
        # What follows the last batch in the buffer, half a batch mostly, is padding enough.
        yield indexes, data if len(data) >= end[-1] + PADDING else padded(batches.buf), start, end
        return
    begun = 0
    for inflated in (_at_once, _one_by_one):
        try:
            for count, data, ends in side_by_side(inflated(batches, indexes[begun:], max_inflated)):
                yield indexes[begun : begun + count], data, np.concatenate([[0], ends[:-1]]), ends
                begun += count
        except Unusual:
            continue
        return


def _spans(batches: Batches, indexes: Ints) -> tuple[Ints, Ints]:
    """Where the payload of each begins and ends."""
    at = batches.position[indexes]
    return at + HEADER_SIZE, at + batches.size[indexes]


def _at_once(batches: Batches, indexes: Ints, max_inflated: int) -> Iterator[bytes]:
    codecs = batches.codec[indexes]
    if (codecs != codecs[0]).any():
        raise Unusual
    return at_once(int(codecs[0]), batches.buf, *_spans(batches, indexes), max_inflated)


def _one_by_one(batches: Batches, indexes: Ints, max_inflated: int) -> Iterator[bytes | memoryview]:
    buf, codecs = batches.buf, batches.codec[indexes]
    begins, ends = (span.tolist() for span in _spans(batches, indexes))
    # What is not compressed, and what has nothing to inflate, is taken as it is.
    plain = (codecs == Codec.NONE) | ((batches.size[indexes] == HEADER_SIZE) & (batches.columns["count"][indexes] == 0))
    kinds = np.where(plain, Codec.NONE, codecs).tolist()
    inflaters = {kind: inflater(kind, max_inflated) for kind in set(kinds) if kind}
    for begin, end, kind in zip(begins, ends, kinds, strict=True):
        try:
            payload = inflaters[kind](buf[begin:end]) if kind else buf[begin:end]
        except BrokerError as error:
            raise _bad(batches, int(indexes[begins.index(begin)]), error.message) from None
        yield payload


def _bad(batches: Batches, index: int, why: str) -> BadRecord:
    at = batches.origin + int(batches.position[index])
    return BadRecord(batches.where, at, why, int(batches.base_offset[index]))


def _rows(
    batches: Batches, group: Ints, lanes: Lanes, first: int | None, end: int | None, columns: Collection[str]
) -> pa.RecordBatch:
    try:
        fields = read_records(lanes)
        offsets = batches.base_offset[group][fields.lane] + fields.offset_delta
        wanted = np.ones(len(offsets), dtype=np.bool_)
        if first is not None:
            wanted &= offsets >= first
        if end is not None:
            wanted &= offsets < end
        if not wanted.all():
            fields, offsets = fields.where(wanted), offsets[wanted]
        buffer = pa.py_buffer(lanes.data)
        # Headers are read even where nobody wants them: their bounds are part of what makes a record sound.
        headers = _headers(lanes.data, buffer, fields) if fields.header_count.any() else None
    except Wrong as error:
        raise _bad(batches, int(group[error.lane]), error.why) from None
    made: list[pa.Array] = []
    for name in (chosen := [name for name in RECORDS.names if name in columns]):
        match name:
            case "key":
                made.append(_bytes_at(buffer, fields.key_at, fields.key_length))
            case "value":
                made.append(_bytes_at(buffer, fields.value_at, fields.value_length))
            case "offset":
                made.append(pa.array(offsets))
            case "timestamp":
                made.append(_timestamps(batches, group, fields))
            case "timestamp_type":
                made.append(pa.array(batches.is_log_append_time[group][fields.lane].astype(np.int32)))
            case "headers":
                made.append(pa.nulls(len(offsets), HEADERS) if headers is None else headers)
    return pa.RecordBatch.from_arrays(made, schema=pa.schema([RECORDS.field(name) for name in chosen]))


def _timestamps(batches: Batches, group: Ints, fields: Fields) -> pa.Array:
    base, top = batches.columns["base_timestamp"][group], batches.columns["max_timestamp"][group]
    stamped = batches.is_log_append_time[group]
    if stamped.any():
        moved = np.where(stamped[fields.lane], top[fields.lane], base[fields.lane] + fields.timestamp_delta)
    else:
        moved = base[fields.lane] + fields.timestamp_delta
    return pa.array(moved).view(RECORDS.field("timestamp").type)


def _bytes_at(buffer: pa.Buffer, at: Ints, length: Ints) -> pa.Array:
    """The byte strings at these places: offsets laid over the buffer, gaps and all, and the gaps not taken."""
    if not len(at):
        return pa.array([], pa.binary())
    places = np.empty(2 * len(at) + 1, dtype=np.int32)
    places[:-1:2] = at
    places[1::2] = at + np.maximum(length, 0)
    # Arrow reserves by the mean of all, and half of them are gaps: one more, as long as the rest and never looked into,
    # sets it right, where the buffer has the room.  Otherwise it copies again what it has taken so far.
    first, last = int(places[0]), int(places[-2])
    places[-1] = min(2 * last - first, buffer.size)
    whole = pa.BinaryArray.from_buffers(pa.binary(), len(places) - 1, [None, pa.py_buffer(places), buffer])
    null = length < 0
    chosen = pa.array(np.arange(0, len(places) - 1, 2, dtype=np.int32), mask=null if null.any() else None)
    return pc.take(whole, chosen, boundscheck=False)


def _headers(data: Bytes, buffer: pa.Buffer, fields: Fields) -> pa.Array:
    found = read_headers(data, fields)
    keys = _bytes_at(buffer, found.key_at, found.key_length)
    try:
        names = keys.cast(pa.string())
    except pa.ArrowInvalid:  # Kafka reads what is not UTF-8 with replacement characters
        names = pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
    values = _bytes_at(buffer, found.value_at, found.value_length)
    entries = pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type))
    edges = np.concatenate([[0], np.cumsum(fields.header_count)]).astype(np.int32)
    bare = pa.array(fields.header_count == 0)
    return pa.ListArray.from_arrays(pa.array(edges), entries, type=HEADERS, mask=bare)


def _old_rows(
    batches: Batches,
    indexes: Ints,
    first: int | None,
    end: int | None,
    columns: Collection[str],
    max_inflated: int,
) -> pa.RecordBatch:
    """Messages of magic 0 and 1, one after the other: they are rare by now."""
    entries: list[messagesets.Entry] = []
    for index in indexes.tolist():
        try:
            message = messagesets.Message(batches.bytes_of(index))
            entries += messagesets.records_in(message, max_bytes=max_inflated)
        except ValueError as error:
            raise _bad(batches, index, str(error)) from None
    low, high = (0 if first is None else first), (1 << 63 if end is None else end)
    entries = [entry for entry in entries if low <= entry.offset < high]
    told = {
        "key": [entry.key for entry in entries],
        "value": [entry.value for entry in entries],
        "offset": [entry.offset for entry in entries],
        "timestamp": [entry.timestamp for entry in entries],
        "timestamp_type": [entry.timestamp_type for entry in entries],
        "headers": [None] * len(entries),
    }
    schema = pa.schema([RECORDS.field(name) for name in RECORDS.names if name in columns])
    return pa.RecordBatch.from_arrays([pa.array(told[field.name], field.type) for field in schema], schema=schema)


def batch_rows(batches: Batches, sound: Mask | None = None) -> pa.RecordBatch:
    """One row a batch, sound or not."""
    told = batches.columns
    stamped = np.where(told["magic"] == 0, -1, batches.is_log_append_time)
    values: dict[str, object] = {
        "segment": [batches.where] * len(batches),
        "position": batches.position + batches.origin,
        "size": batches.size,
        "codec": _CODECS[batches.codec].tolist(),
        "timestamp_type": stamped,
        "transactional": batches.is_transactional,
        "control": batches.is_control,
        "marker": batches.markers(),
        "crc_ok": batches.sound() if sound is None else sound,
    }
    made = [pa.array(values.get(field.name, told.get(field.name)), field.type) for field in BATCHES]
    return pa.RecordBatch.from_arrays(made, schema=BATCHES)
