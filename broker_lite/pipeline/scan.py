"""Batch headers of a piece of log, as columns: where each batch lies, what it says of itself, whether it is sound.

Only the hop from length to length and the checksum are loops (0.2 µs and, for 2 KiB, 0.5 µs a batch); the headers
are then one gather of 61 bytes a batch.  Batches of magic 2 and messages of magic 0 and 1 may follow each other in one
file, as they do in a log that has lived through upgrades; a compressed message set is one batch here.

A hop that cannot be right (a length too small, an unknown magic) ends the scan: everything before it is told, and the
`fault` says why it ended.  A batch whose end is missing is no fault, only an end: whoever reads on may have the rest.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from crc32c import crc32c

from broker_lite.errors import BrokerError
from broker_lite.pipeline import messagesets
from broker_lite.pipeline.errors import CutBatch, Damaged, WrongChecksum
from broker_lite.pipeline.varints import Ints, Mask
from broker_lite.records.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_FROM,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    Batch,
)
from broker_lite.records.control import read_marker

_HEAD = struct.Struct(">qi4xb")
_SMALLEST = 14
_SMALLEST_BATCH = HEADER_SIZE - LOG_OVERHEAD
_MESSAGE_CRC_FROM = 16

HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)
assert HEADER.itemsize == HEADER_SIZE


@dataclass(slots=True)
class Batches:
    """The batches that lie whole in `buf`, one entry of each array a batch."""

    where: str
    """The file, for messages."""
    origin: int
    """Where in the file `buf` begins."""
    buf: memoryview
    position: Ints
    """In `buf`."""
    size: Ints
    end: int
    """Where in `buf` the first batch begins that is not among these."""
    fault: Damaged | None
    """Why the scan ended before the bytes did."""
    columns: dict[str, Ints] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.position)

    def __getattr__(self, name: str) -> Ints:
        try:
            return self.columns[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def base_offset(self) -> Ints:
        return self.columns["base_offset"]

    @property
    def last_offset(self) -> Ints:
        return self.columns["last_offset"]

    @property
    def is_control(self) -> Mask:
        return self._has(CONTROL)

    @property
    def is_transactional(self) -> Mask:
        return self._has(TRANSACTIONAL)

    @property
    def is_log_append_time(self) -> Mask:
        return self._has(LOG_APPEND_TIME)

    def _has(self, attribute: int) -> Mask:
        mask: Mask = (self.columns["attributes"] & attribute) != 0
        return mask

    @property
    def codec(self) -> Ints:
        return self.columns["attributes"] & CODEC_MASK

    def bytes_of(self, index: int) -> memoryview:
        at = int(self.position[index])
        return self.buf[at : at + int(self.size[index])]

    def sound(self) -> Mask:
        """Whose checksum is that of its bytes."""
        buf = self.buf
        old = self.columns["magic"] < 2
        begins, ends = (self.position + CRC_FROM).tolist(), (self.position + self.size).tolist()
        sums = [crc32c(buf[begin:end]) for begin, end in zip(begins, ends, strict=True)]
        found = np.array(sums, dtype=np.int64)
        for index in np.flatnonzero(old).tolist():
            found[index] = zlib.crc32(self.bytes_of(index)[_MESSAGE_CRC_FROM:])
        mask: Mask = found == self.columns["crc"]
        return mask

    def wrong_checksum(self, index: int) -> WrongChecksum:
        return WrongChecksum(
            self.where,
            self.origin + int(self.position[index]),
            f"the checksum does not fit the {int(self.size[index])} bytes of the batch",
            int(self.base_offset[index]),
        )

    def markers(self) -> list[str | None]:
        """For each batch: `commit` or `abort` if it ends a transaction, else None."""
        found: list[str | None] = [None] * len(self)
        for index in np.flatnonzero(self.is_control).tolist():
            try:
                marker = read_marker(Batch(self.bytes_of(index)))
            except BrokerError:
                continue
            if marker is not None:
                found[index] = "commit" if marker.commit else "abort"
        return found


def scan(buf: bytes | bytearray | memoryview, where: str, *, origin: int = 0, before: int | None = None) -> Batches:
    """The batches of `buf`, which begins with one; those from offset `before` on are left out."""
    view = memoryview(buf)
    positions, end, fault = _hop(view, where, origin, before)
    position = np.array(positions, dtype=np.int64)
    made = Batches(where, origin, view, position, np.diff(position, append=end), end, fault)
    made.columns = _columns(view, position)
    for index in np.flatnonzero(made.columns["magic"] < 2).tolist():
        _tell_message(made, index)
    return made


def _hop(view: memoryview, where: str, origin: int, before: int | None) -> tuple[list[int], int, Damaged | None]:
    """Where each batch begins, where the last one ends, and what stands there if it cannot be one."""
    positions: list[int] = []
    unpack = _HEAD.unpack_from
    pos, whole = 0, len(view)
    last = whole - LOG_OVERHEAD - 5
    stop = (1 << 63) if before is None else before
    while pos <= last:
        offset, length, magic = unpack(view, pos)
        if offset >= stop and magic == 2:
            break
        if length < (_SMALLEST_BATCH if magic == 2 else _SMALLEST) or not 0 <= magic <= 2 or offset < 0:
            why = f"no batch can begin here: offset {offset}, length {length}, magic {magic}"
            return positions, pos, CutBatch(where, origin + pos, why)
        after = pos + LOG_OVERHEAD + length
        if after > whole:
            break
        positions.append(pos)
        pos = after
    return positions, pos, None


def _columns(view: memoryview, position: Ints) -> dict[str, Ints]:
    rows = np.zeros(len(position), dtype=HEADER)
    # The header that would begin at each byte: one gather then copies those that do.
    starts = max(len(view) - HEADER_SIZE + 1, 0)
    inside = int(np.searchsorted(position, starts))
    if inside:
        rows[:inside] = np.ndarray(starts, dtype=HEADER, buffer=view, strides=(1,))[position[:inside]]
    # A message of magic 0 or 1 may have fewer than 61 bytes: at the end of the buffer zeros stand for the rest.
    for index in range(inside, len(position)):
        rows[index] = np.frombuffer(bytes(view[position[index] :]).ljust(HEADER_SIZE, b"\0"), dtype=HEADER)[0]
    names = [name for name in HEADER.names or () if name not in ("length", "last_offset_delta")]
    columns = {name: rows[name].astype(np.int64) for name in names}
    columns["last_offset"] = columns["base_offset"] + rows["last_offset_delta"]
    return columns


def _tell_message(batches: Batches, index: int) -> None:
    """Columns of a message of magic 0 or 1, for which the gathered header means nothing."""
    message = messagesets.Message(batches.bytes_of(index))
    told = {
        "last_offset": message.offset,
        "leader_epoch": -1,
        "crc": message.crc,
        "attributes": message.attributes & 0x0F if message.magic else message.attributes & CODEC_MASK,
        "base_timestamp": message.timestamp,
        "max_timestamp": message.timestamp,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "count": 1,
        "base_offset": message.offset,
    }
    if message.codec and message.sound():
        try:
            inner = messagesets.records_in(message)
        except ValueError:
            inner = []
        told["count"] = len(inner)
        told["base_offset"] = inner[0].offset if inner else message.offset
        if message.timestamp_type != 1:
            told["max_timestamp"] = max((one.timestamp for one in inner), default=message.timestamp)
    for name, value in told.items():
        batches.columns[name][index] = value


def find_next(buf: memoryview, after: int, *, above: int) -> int | None:
    """Where, behind a damaged place, a sound batch with an offset above `above` begins; None if there is none."""
    data = np.frombuffer(buf, dtype=np.uint8)
    for at in (np.flatnonzero(data[after + 1 + 16 :] == 2) + after + 1).tolist():
        if _is_batch(buf, at, above):
            return int(at)
    return None


def _is_batch(buf: memoryview, at: int, above: int) -> bool:
    if len(buf) - at < HEADER_SIZE:
        return False
    offset, length, magic = _HEAD.unpack_from(buf, at)
    if magic != 2 or offset <= above or not _SMALLEST_BATCH <= length <= len(buf) - at - LOG_OVERHEAD:
        return False
    return Batch(buf[at : at + length + LOG_OVERHEAD]).crc_ok()


def each_kind(batches: Batches, chosen: Ints) -> Iterator[tuple[bool, Ints]]:
    """(is a message of magic 0 or 1, indexes) for each run of batches of one kind among `chosen`."""
    old = batches.columns["magic"][chosen] < 2
    edges = np.flatnonzero(np.diff(old.astype(np.int8))) + 1
    for run in np.split(chosen, edges):
        if run.size:
            yield bool(batches.columns["magic"][run[0]] < 2), run
