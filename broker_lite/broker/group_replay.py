"""Reading a partition of `__consumer_offsets` back, a piece at a time.

Most of its records are commits, and most commits are overtaken by later ones under the same key.  So the commits of
plain batches are only noted, key by key, and what is left at the end is read: a million commits of a thousand keys
cost a million steps over bytes and a thousand decodings.  Whatever depends on order (transactions, markers) comes
after everything noted before it.

All of it or nothing: what is damaged, or cannot be read, ends the load with CORRUPT_MESSAGE, as it does in Kafka.  From
a part of the partition a group would be told "no offset", and its consumers would start in the wrong place.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker_lite.broker.plain_records import check_nothing_is_left, plain_records
from broker_lite.coordinator.decision import Record
from broker_lite.coordinator.groups.coordinator import Groups
from broker_lite.coordinator.groups.loading import CommitLoader
from broker_lite.crc import crc32c
from broker_lite.errors import CorruptMessage, Malformed
from broker_lite.ids import Offset
from broker_lite.partition.partition import Partition
from broker_lite.records.batch import CONTROL, CRC_FROM, HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC, TRANSACTIONAL, Batch
from broker_lite.records.control import read_marker
from broker_lite.records.legacy import MAGIC_AT, as_batch
from broker_lite.records.record import records_of

BYTES_A_TURN = 128 * 1024
NOTES_A_TURN = 1000
MOST_NOTES = 50_000
"""More than that are not kept apart: a dictionary that doubles stops everybody while it does."""
_NOT_PLAIN = CONTROL | TRANSACTIONAL | 7
"""Bits of a batch's attributes that need a closer look: what they are, or a codec."""
_COMMITS = (b"\0\0", b"\0\1")


def has_records(partition: Partition) -> bool:
    """Also where none of them can be reached."""
    return partition.offsets.end > partition.offsets.start or partition.log.recovered.damage is not None


class Replay:
    def __init__(self, groups: Groups, partition: Partition, *, now_ms: int) -> None:
        self.count = 0
        self._groups = groups
        self._partition = partition
        self._now_ms = now_ms
        self._noted: dict[bytes, tuple[int, bytes | None]] = {}
        self._after = Offset(0)
        """The offset after the last batch of the piece at hand."""

    def run(self) -> Iterator[None]:
        """Yields whenever somebody else should have the loop. Nothing has come since when it ends.

        BrokerError if not everything can be read."""
        damage = self._partition.log.recovered.damage
        if damage is not None:  # the log ends before it, so nobody would come upon it
            raise CorruptMessage(str(damage))
        at = self._partition.offsets.start
        while at < (end := self._partition.offsets.end):  # a marker may come while this runs
            piece = self._partition.log.read(at, max_bytes=BYTES_A_TURN, end=end)
            if piece is None:
                check_nothing_is_left(self._partition, at)
                break
            data = piece.read_all()
            piece.release()
            yield from self._piece(data)
            if self._after <= at:
                raise CorruptMessage(f"offset {at} is followed by {self._after}")
            at = self._after
            yield
            if at >= self._partition.offsets.end:
                yield from self._apply_noted()  # and again look whether a marker has come
        yield from self._apply_noted()

    def _piece(self, data: bytes) -> Iterator[None]:
        """Whole batches."""
        pos, after, size, view = 0, 0, len(data), memoryview(data)
        while pos < size:
            if data[pos + MAGIC_AT] < MAGIC:
                after, pos = self._old(data, pos)
                continue
            fields = HEADER.unpack_from(data, pos)
            base, stop = fields[0], pos + LOG_OVERHEAD + fields[1]
            after = base + fields[6] + 1
            if crc32c(view[pos + CRC_FROM : stop]) != fields[4]:
                raise CorruptMessage(f"the batch at offset {base} has another checksum than {fields[4]}")
            self.count += fields[12]
            if fields[5] & _NOT_PLAIN:
                yield from self._apply_noted()
                self._special(Batch.at(view[pos:stop]))
            else:
                self._plain(data, pos + HEADER_SIZE, base, fields[12])
                if len(self._noted) > MOST_NOTES:
                    yield from self._apply_noted()
            pos = stop
        self._after = Offset(after)

    def _old(self, data: bytes, pos: int) -> tuple[int, int]:
        """A message from before there were batches, in a folder of a Kafka that is as old; the offset after it, too."""
        stop = pos + LOG_OVERHEAD + int.from_bytes(data[pos + 8 : pos + LOG_OVERHEAD], "big")
        batch = as_batch(data[pos:stop])
        self.count += batch.count
        self._special(batch)
        return batch.next_offset, stop

    def _plain(self, data: bytes, pos: int, base: int, count: int) -> None:
        noted = self._noted
        for at, key, value in plain_records(data, pos, base, count):
            if key[:2] in _COMMITS:
                noted[key] = (at, value)
            else:
                self._apply(key, value, at, -1)

    def _special(self, batch: Batch) -> None:
        if batch.is_control:
            marker = read_marker(batch)
            if marker is not None:
                self._groups.apply_marker(batch.producer_id, commit=marker.commit)
            return
        producer_id = batch.producer_id if batch.is_transactional else -1
        for record in records_of(batch):
            self._apply(record.key or b"", record.value, record.offset, producer_id)

    def _apply_noted(self) -> Iterator[None]:
        load = CommitLoader(self._groups, now_ms=self._now_ms).load
        for number, (key, (at, value)) in enumerate(self._noted.items()):
            if not load(key, value, at):
                self._apply(key, value, at, -1)
            if number % NOTES_A_TURN == 0:
                yield
        self._noted.clear()

    def _apply(self, key: bytes, value: bytes | None, at: int, producer_id: int) -> None:
        try:
            self._groups.apply(Record(key, value), at=at, producer_id=producer_id, now_ms=self._now_ms)
        except Malformed as error:
            raise CorruptMessage(f"the record at offset {at} cannot be read: {error}") from None
