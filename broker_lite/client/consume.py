"""The fetch loop: records of one topic, partition by partition, as they are written.

One fetch goes to each leader, for all partitions it leads; a leader with nothing new answers after `max_wait_ms`.
A batch may begin before the offset asked for (the log hands out whole batches), so early records are skipped;
control batches are not data.
For readers of committed data the broker stops at the last stable offset and names the aborted transactions,
and whoever reads drops their records, as in every Kafka client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import anyio

from broker_lite.client.connection import Connection, Unreachable
from broker_lite.client.views import refused
from broker_lite.errors import ErrorCode, OffsetOutOfRange
from broker_lite.records.batch import walk
from broker_lite.records.control import read_marker
from broker_lite.records.record import Record, records_of
from broker_lite.wire.messages.k01_fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from broker_lite.wire.schema import ZERO_UUID

if TYPE_CHECKING:
    from broker_lite.client.client import Client

_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
_PAUSE = 0.1


async def consume(
    client: Client,
    topic: str,
    positions: Mapping[int, int],
    *,
    until: Mapping[int, int] | None,
    committed: bool,
    max_bytes: int,
    max_wait_ms: int,
) -> AsyncIterator[tuple[int, Record]]:
    next_offsets = dict(positions)
    while True:
        open_ones = [index for index in next_offsets if until is None or next_offsets[index] < until.get(index, 0)]
        if not open_ones:
            return
        moved = False
        for connection, indexes in await _by_leader(client, topic, open_ones):
            wanted = {index: next_offsets[index] for index in indexes}
            for part in await _fetch(
                client, connection, topic, wanted, committed=committed, max_bytes=max_bytes, max_wait_ms=max_wait_ms
            ):
                if part.error_code in _MOVED:
                    moved = True
                    continue
                _check(part, topic, wanted[part.partition_index])
                index, limit = part.partition_index, None if until is None else until.get(part.partition_index, 0)
                for record, after in _records(part, next_offsets[index], committed=committed):
                    if limit is not None and after > limit and (record is None or record.offset >= limit):
                        next_offsets[index] = limit
                        break
                    next_offsets[index] = after
                    if record is not None:
                        yield index, record
        if moved:
            client.forget(topic)
            await anyio.sleep(_PAUSE)


async def _by_leader(client: Client, topic: str, indexes: list[int]) -> list[tuple[Connection, list[int]]]:
    found: dict[int, tuple[Connection, list[int]]] = {}
    for index in indexes:
        connection = await client.patiently(partial(client.to_leader, topic, index), topic=topic)
        found.setdefault(id(connection), (connection, []))[1].append(index)
    return list(found.values())


async def _fetch(
    client: Client,
    connection: Connection,
    topic: str,
    wanted: Mapping[int, int],
    *,
    committed: bool,
    max_bytes: int,
    max_wait_ms: int,
) -> list[PartitionData]:
    topic_id = (await client.topic(topic)).topic_id
    parts = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
        for index, offset in wanted.items()
    ]
    ask = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=int(committed),
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=parts)],
    )
    answer = await connection.request(
        ask,
        FetchResponse,
        at_most=12 if topic_id == ZERO_UUID else None,
        within=client.timeout + max_wait_ms / 1000,
    )
    if answer.error_code:
        raise Unreachable(f"{connection.address} refused the fetch: error {answer.error_code}")
    return [part for found in answer.responses for part in found.partitions]


def _check(part: PartitionData, topic: str, offset: int) -> None:
    if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        known = f": the log has {part.log_start_offset} to {part.high_watermark}" if part.high_watermark >= 0 else ""
        raise OffsetOutOfRange(f"offset {offset} of {topic}-{part.partition_index} is out of range{known}")
    if part.error_code:
        raise refused(part.error_code, f"{topic}-{part.partition_index}")


def _records(part: PartitionData, position: int, *, committed: bool) -> Iterator[tuple[Record | None, int]]:
    """(record, the offset after it) for each record to be seen, and (None, offset) where data was passed over."""
    aborted = Aborted(part.aborted_transactions or [] if committed else [])
    data = part.records
    if data is None or not isinstance(data, (bytes, bytearray, memoryview)):
        return
    for batch in walk(data):
        aborted.reach(batch.last_offset)
        hidden = batch.is_control
        if batch.is_control:
            marker = read_marker(batch)
            if marker is not None and not marker.commit:
                aborted.end(batch.producer_id)
        elif batch.is_transactional and aborted.has(batch.producer_id):
            hidden = True
        if not hidden:
            for record in records_of(batch):
                if record.offset >= position:
                    yield record, record.offset + 1
        if batch.next_offset > position:
            yield None, batch.next_offset


class Aborted:
    """Whose transactional records are to be dropped at the present place in the log."""

    def __init__(self, transactions: list[AbortedTransaction]) -> None:
        self._ahead = sorted(transactions, key=lambda one: one.first_offset, reverse=True)
        self._open: set[int] = set()

    def reach(self, offset: int) -> None:
        while self._ahead and self._ahead[-1].first_offset <= offset:
            self._open.add(self._ahead.pop().producer_id)

    def has(self, producer_id: int) -> bool:
        return producer_id in self._open

    def end(self, producer_id: int) -> None:
        self._open.discard(producer_id)
