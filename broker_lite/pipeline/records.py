"""The records of many batches of magic 2 at once, as positions and lengths in one array of bytes.

Three ideas make it fast without a compiler:

- *Lanes.*  Where a record begins is known only once the one before it is, but batches do not depend on each other.  So
  all batches step from record to record in lockstep, one lane a batch, and each step is a few array operations.  When
  only few lanes are left (large batches, or one much longer than the rest) a plain loop takes them to their ends.
- *Columns.*  Once all records' places are known, each field is read for all of them together.
- *No copies.*  Keys and values stay where they are; what comes out are positions and lengths.

Nothing is believed: each record must end where the next begins, the last one at the end of its batch, every field
inside its record, and the offsets inside their batch.  The first thing that is not so is told as `Wrong`, with the
lane in which it was found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker_lite.pipeline import varints
from broker_lite.pipeline.varints import Bytes, Ints, Mask

SMALLEST_RECORD = 7
"""Length, attributes, timestamp, offset, key length, value length, header count: a byte each."""
_FEW_LANES = 20
"""Below this a loop in Python (0.3 µs a record) beats ten array operations a step."""


def _by_first_bytes() -> tuple[Ints, Ints]:
    every = np.zeros((1 << 16, 2 + varints.PADDING), dtype=np.uint8)
    every[:, :2] = np.arange(1 << 16, dtype="<u2").view(np.uint8).reshape(-1, 2)
    at = np.arange(1 << 16) * every.shape[1]
    length, after = varints.read(every.ravel(), at)
    odd = (after - at > 2) | (length < SMALLEST_RECORD - 1)
    return after - at, np.where(odd, _FAR, after - at + length)


_FAR = 1 << 40
_LENGTH_ENDS, _RECORD_ENDS = _by_first_bytes()
"""By a record's first two bytes, as a little-endian number: how far it is to the end of its length, and to its own.
Lengths of three bytes, and such as no record has, end beyond everything: they need another look."""


class Wrong(Exception):
    """What a batch says is not so; `lane` is the index of the batch."""

    def __init__(self, lane: int, why: str) -> None:
        self.lane, self.why = lane, why
        super().__init__(why)


@dataclass(slots=True)
class Lanes:
    """Inflated payloads in one array: lane i lies from start[i] to end[i] and holds count[i] records."""

    data: Bytes
    start: Ints
    end: Ints
    count: Ints
    last_delta: Ints


@dataclass(slots=True)
class Fields:
    """One entry a record, in the order of the lanes. A length of -1 is null."""

    lane: Ints
    offset_delta: Ints
    timestamp_delta: Ints
    key_at: Ints
    key_length: Ints
    value_at: Ints
    value_length: Ints
    headers_at: Ints
    header_count: Ints
    finish: Ints

    def where(self, keep: Mask) -> Fields:
        return Fields(*(getattr(self, name)[keep] for name in self.__slots__))


@dataclass(slots=True)
class HeaderFields:
    """One entry a header, in the order of the records. `record` is an index into the fields."""

    record: Ints
    key_at: Ints
    key_length: Ints
    value_at: Ints
    value_length: Ints


def read_records(lanes: Lanes) -> Fields:
    lane, begin, finish = _places(lanes)
    data = lanes.data

    def number(at: Ints, bits: int = 32) -> tuple[Ints, Ints]:
        try:
            return varints.read(data, at, bits)
        except varints.Endless as error:
            raise Wrong(int(lane[error.index]), str(error)) from None

    def inside(at: Ints, what: str) -> None:
        over = np.flatnonzero(at > finish)
        if over.size:
            first = int(over[0])
            raise Wrong(int(lane[first]), f"{what} goes {int(at[first] - finish[first])} bytes past its record")

    timestamp, at = number(begin + 1, 64)
    offset, at = number(at)
    key_length, key_at = number(at)
    inside(key_at, "the key's length")
    at = key_at + np.maximum(key_length, 0)
    inside(at, "a key")
    value_length, value_at = number(at)
    inside(value_at, "the value's length")
    at = value_at + np.maximum(value_length, 0)
    inside(at, "a value")
    header_count, at = number(at)
    inside(at, "the number of headers")
    bare = header_count == 0
    _all(bare <= (at == finish), lane, "a record has bytes behind its last field")
    _all(header_count >= 0, lane, "a record has a negative number of headers")
    _all(header_count * 2 <= finish - at, lane, "a record has more headers than bytes")
    _all((offset >= 0) & (offset <= lanes.last_delta[lane]), lane, "a record's offset lies outside its batch")
    return Fields(lane, offset, timestamp, key_at, key_length, value_at, value_length, at, header_count, finish)


def _all(good: Mask, lane: Ints, why: str) -> None:
    if not good.all():
        raise Wrong(int(lane[int(np.argmin(good))]), why)


def _places(lanes: Lanes) -> tuple[Ints, Ints, Ints]:
    """(lane, first byte after the length, byte after the last) of each record."""
    few = np.flatnonzero((lanes.count < 0) | (lanes.count * SMALLEST_RECORD > lanes.end - lanes.start))
    if few.size:
        at = int(few[0])
        room = int(lanes.end[at] - lanes.start[at])
        raise Wrong(at, f"{int(lanes.count[at])} records are declared in {room} bytes")
    total = int(lanes.count.sum())
    begin, finish = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
    first = np.cumsum(lanes.count) - lanes.count
    order = np.argsort(-lanes.count, kind="stable")
    cursor = lanes.start[order].copy()
    step = _in_lockstep(lanes, order, cursor, first, begin, finish)
    view = lanes.data.data
    for place in np.flatnonzero(lanes.count[order] > step).tolist():
        lane = int(order[place])
        cursor[place] = _alone(view, int(cursor[place]), lanes, lane, step, int(first[lane]), begin, finish)
    missed = np.flatnonzero(cursor != lanes.end[order])
    if missed.size:
        lane = int(order[missed[0]])
        left = int(lanes.end[lane] - cursor[missed[0]])
        raise Wrong(lane, f"{left} bytes are left behind the {int(lanes.count[lane])} declared records")
    return np.repeat(np.arange(len(lanes.count)), lanes.count), begin, finish


def _in_lockstep(lanes: Lanes, order: Ints, cursor: Ints, first: Ints, begin: Ints, finish: Ints) -> int:
    """Step all lanes together, the longest first, until few are left; how many steps were made."""
    data, end = lanes.data, lanes.end[order]
    counts = lanes.count[order]
    slot = first[order].copy()
    # Counts fall along `order`, so the lanes that still have records at a step are the first ones.
    last = int(counts[_FEW_LANES - 1]) if len(counts) >= _FEW_LANES else 0
    actives = np.searchsorted(-counts, -np.arange(last), side="left").tolist()
    # The two bytes from each place on, as a number.
    pairs = np.ndarray(len(data) - 1, dtype="<u2", buffer=data, strides=(1,))
    for step, active in enumerate(actives):
        at = cursor[:active]
        pair = pairs[at]
        after, stop = at + _LENGTH_ENDS.take(pair), at + _RECORD_ENDS.take(pair)
        if np.count_nonzero(stop > end[:active]):
            after, stop = _with_care(data, at, end[:active], order, step)
        slots = slot[:active]
        begin[slots], finish[slots] = after, stop
        slots += 1
        cursor[:active] = stop
    return last


def _with_care(data: Bytes, at: Ints, end: Ints, order: Ints, step: int) -> tuple[Ints, Ints]:
    """What the tables tell, for lengths of every width, and what is wrong with those that cannot be."""
    try:
        length, after = varints.read(data, at)
    except varints.Endless as error:
        raise Wrong(int(order[error.index]), f"the length of record {step} is {error}") from None
    stop = after + length
    wrong = (length < SMALLEST_RECORD - 1) | (stop > end)
    if wrong.any():
        place = int(np.argmax(wrong))
        raise _bad_length(int(order[place]), step, int(length[place]), int(end[place] - after[place]))
    return after, stop


def _alone(view: memoryview, at: int, lanes: Lanes, lane: int, step: int, first: int, begin: Ints, finish: Ints) -> int:
    """Step one lane to its end; where that is."""
    end, count = int(lanes.end[lane]), int(lanes.count[lane])
    begins: list[int] = []
    stops: list[int] = []
    for index in range(step, count):
        low = view[at]
        if low < 0x80:
            length, at = low >> 1, at + 1
        elif (high := view[at + 1]) < 0x80:
            length, at = (low & 0x7F | high << 7) >> 1, at + 2
        else:
            try:
                value, after = varints.read(lanes.data, np.array([at]))
            except varints.Endless as error:
                raise Wrong(lane, f"the length of record {index} is {error}") from None
            length, at = int(value[0]), int(after[0])
        if low & 1 or length < SMALLEST_RECORD - 1 or at + length > end:
            raise _bad_length(lane, index, -1 if low & 1 else length, end - at)
        begins.append(at)
        at += length
        stops.append(at)
    begin[first + step : first + count] = begins
    finish[first + step : first + count] = stops
    return at


def _bad_length(lane: int, index: int, length: int, left: int) -> Wrong:
    return Wrong(lane, f"record {index} says it has {length} bytes where {left} are left")


def read_headers(data: Bytes, fields: Fields) -> HeaderFields:
    """All headers of all records, stepping from header to header in lockstep as above, one lane a record."""
    owner = np.flatnonzero(fields.header_count > 0)
    order = owner[np.argsort(-fields.header_count[owner], kind="stable")]
    counts, finish = fields.header_count[order], fields.finish[order]
    cursor = fields.headers_at[order].copy()
    first = np.cumsum(fields.header_count) - fields.header_count
    total = int(fields.header_count.sum())
    out = np.empty((4, total), dtype=np.int64)
    step, active = 0, len(order)
    while (active := int(np.searchsorted(-counts[:active], -step, side="left"))) >= _FEW_LANES:
        lane = fields.lane[order[:active]]
        at = cursor[:active]
        for row in (0, 2):
            length, at = _header_field(data, at, finish[:active], lane, may_be_null=row == 2)
            out[row, first[order[:active]] + step] = at
            out[row + 1, first[order[:active]] + step] = length
            at = at + np.maximum(length, 0)
        cursor[:active] = at
        step += 1
    for place in np.flatnonzero(counts > step).tolist():
        record = int(order[place])
        cursor[place] = _headers_alone(data, int(cursor[place]), fields, record, step, int(first[record]), out)
    _all(cursor == finish, fields.lane[order], "a record has bytes behind its last header")
    return HeaderFields(np.repeat(np.arange(len(fields.lane)), fields.header_count), *out)


def _header_field(data: Bytes, at: Ints, finish: Ints, lane: Ints, *, may_be_null: bool) -> tuple[Ints, Ints]:
    try:
        length, at = varints.read(data, at)
    except varints.Endless as error:
        raise Wrong(int(lane[error.index]), str(error)) from None
    _all(at + np.maximum(length, 0) <= finish, lane, "a header goes past its record")
    if not may_be_null:
        _all(length >= 0, lane, "a header has no key")
    return length, at


def _headers_alone(data: Bytes, at: int, fields: Fields, record: int, step: int, first: int, out: Ints) -> int:
    from broker_lite.errors import InvalidRecord
    from broker_lite.records.record import read_varint

    view, finish, lane = data.data, int(fields.finish[record]), int(fields.lane[record])
    for index in range(step, int(fields.header_count[record])):
        for row in (0, 2):
            try:
                length, at = read_varint(view, at)
            except InvalidRecord as error:
                raise Wrong(lane, error.message) from None
            if length < 0 and row == 0:
                raise Wrong(lane, "a header has no key")
            if at + max(length, 0) > finish:
                raise Wrong(lane, "a header goes past its record")
            out[row, first + index], out[row + 1, first + index] = at, length
            at += max(length, 0)
    return at
