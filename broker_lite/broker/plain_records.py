"""Records of internal topics, read as fast as Python can: a start reads all of them, and most are soon overtaken."""

from __future__ import annotations

from collections.abc import Iterator

from broker_lite.crc import crc32c
from broker_lite.errors import CorruptMessage
from broker_lite.ids import Offset
from broker_lite.partition.partition import Partition
from broker_lite.records.batch import CONTROL, CRC_FROM, HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC, Batch
from broker_lite.records.legacy import MAGIC_AT, as_batch
from broker_lite.records.record import records_of
from broker_lite.wire.primitives import read_unsigned_varint, read_varlong

BYTES_A_PIECE = 256 * 1024
_CODEC = 7

Line = tuple[int, bytes, bytes | None]
"""Offset, key and value."""


def plain_records(data: bytes, pos: int, base: int, count: int) -> Iterator[Line]:
    """`count` records that lie at `pos`, not compressed. Nearly every number among them is one or two bytes long: those
    are read without a call."""
    for _ in range(count):
        size, pos = data[pos], pos + 1
        if size > 127:
            if (high := data[pos]) < 128:
                size, pos = size & 127 | high << 7, pos + 1
            else:
                size, pos = read_unsigned_varint(data, pos - 1)
        stop = pos + (size >> 1)
        pos += 2
        if data[pos - 1]:
            _, pos = read_varlong(data, pos - 1)
        delta, pos = data[pos], pos + 1
        if delta > 127:
            if (high := data[pos]) < 128:
                delta, pos = delta & 127 | high << 7, pos + 1
            else:
                delta, pos = read_unsigned_varint(data, pos - 1)
        length, pos = data[pos], pos + 1
        if length > 127:
            length, pos = read_unsigned_varint(data, pos - 1)
        key = b"" if length & 1 else data[pos : pos + (length >> 1)]
        pos += len(key)
        length, pos = data[pos], pos + 1
        if length > 127:
            length, pos = read_unsigned_varint(data, pos - 1)
        yield base + (delta >> 1), key, None if length & 1 else data[pos : pos + (length >> 1)]
        pos = stop


def latest_of_each_key(partition: Partition) -> dict[bytes, tuple[int, bytes | None]]:
    """Key -> offset and value of its last record. BrokerError if not everything can be read."""
    found: dict[bytes, tuple[int, bytes | None]] = {}
    damage = partition.log.recovered.damage
    if damage is not None:  # the log ends before it, so nobody would come upon it
        raise CorruptMessage(f"{partition.tp}: {damage}; see `broker-lite fsck`")
    at, end = partition.offsets.start, partition.offsets.end
    while at < end:
        piece = partition.log.read(at, max_bytes=BYTES_A_PIECE, end=end)
        if piece is None:
            check_nothing_is_left(partition, at)
            break
        data = piece.read_all()
        piece.release()
        pos, after = 0, int(at)
        while pos < len(data):
            if data[pos + MAGIC_AT] < MAGIC:
                stop = pos + LOG_OVERHEAD + int.from_bytes(data[pos + 8 : pos + LOG_OVERHEAD], "big")
                batch = as_batch(data[pos:stop])
                lines, after = _lines(batch), batch.next_offset
            else:
                header = HEADER.unpack_from(data, pos)
                stop, after = pos + LOG_OVERHEAD + header[1], header[0] + header[6] + 1
                if crc32c(memoryview(data)[pos + CRC_FROM : stop]) != header[4]:
                    where = f"{partition.tp} is damaged at offset {header[0]}"
                    raise CorruptMessage(f"{where}: another checksum than {header[4]}; see `broker-lite fsck`")
                if header[5] & (CONTROL | _CODEC):
                    lines = _lines(Batch.at(data, pos))
                else:
                    lines = plain_records(data, pos + HEADER_SIZE, header[0], header[12])
            for offset, key, value in lines:
                found[key] = (offset, value)
            pos = stop
        if after <= at:
            raise CorruptMessage(f"{partition.tp} is damaged: offset {at} is followed by {after}")
        at = Offset(after)
    return found


def check_nothing_is_left(partition: Partition, at: Offset) -> None:
    """Nothing can be read from `at` on: compaction has left nothing there, or a wrong offset hides what is there."""
    hidden = partition.log.batch_at(at)
    if hidden is not None:
        raise CorruptMessage(f"{partition.tp} is damaged: offset {hidden.base_offset} where {at} is due")


def _lines(batch: Batch) -> Iterator[Line]:
    if not batch.is_control:
        for record in records_of(batch):
            yield record.offset, record.key or b"", record.value
