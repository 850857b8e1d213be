"""A running broker, any Kafka, read over the wire: the same raw batches that lie in its files.

The client is asynchronous and Spark's tasks are not, so an event loop runs in a thread beside the task for as long as
the reading takes.  A broker that goes away is looked for again until `patience` is over.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TypeVar

import numpy as np
from anyio.from_thread import BlockingPortal, start_blocking_portal

from broker_lite.client.admin import describe_configs
from broker_lite.client.client import EARLIEST, LATEST, Client
from broker_lite.client.connection import Unreachable
from broker_lite.client.consume import Aborted as AbortedAhead
from broker_lite.client.topics import create_topic, list_topics
from broker_lite.client.views import TopicView, parse_bootstrap, refused
from broker_lite.errors import BrokerError, ErrorCode, UnsupportedVersion
from broker_lite.ids import TopicId, TopicPartition, format_topic_id
from broker_lite.pipeline.entry import Entry
from broker_lite.pipeline.errors import DataLost, NotThere, PipelineError
from broker_lite.pipeline.folder import Bounds
from broker_lite.pipeline.scan import Batches, scan
from broker_lite.pipeline.varints import Mask
from broker_lite.wire.messages.k01_fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from broker_lite.wire.schema import ZERO_UUID

R = TypeVar("R")
FETCH_BYTES = 8 << 20
PATIENCE = 30.0
_MOVED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
}


class Remote:
    """Use it with `with`: the event loop's thread and the connections live as long as the block."""

    def __init__(self, bootstrap: str, entry: Entry | None = None, *, patience: float = PATIENCE) -> None:
        self.place = bootstrap
        self._access = None if entry is None else entry.access
        self._patience = patience
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._client: Client | None = None
        try:
            parse_bootstrap(bootstrap)
        except ValueError as error:
            raise NotThere(str(error)) from None

    def __enter__(self) -> Remote:
        self._portal = self._stack.enter_context(start_blocking_portal())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._client is not None and self._portal is not None:
                self._portal.call(self._client.close)
        finally:
            self._client = None
            self._stack.close()

    def ask(self, question: Callable[[Client], Awaitable[R]]) -> R:
        """The answer; connects, and connects again if the broker went away, until patience is over."""
        assert self._portal is not None, "use it with `with`"
        until = time.monotonic() + self._patience
        pause = 0.05
        while True:
            try:
                return self._portal.call(self._answer, question)
            except Unreachable as error:
                if time.monotonic() + pause > until:
                    raise NotThere(str(error)) from None
            except BrokerError as error:
                raise PipelineError(error.message) from None
            self._client = None
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    async def _answer(self, question: Callable[[Client], Awaitable[R]]) -> R:
        if self._client is None:
            self._client = await Client.connect(
                self.place, client_id="broker-lite-pipeline", timeout=10.0, access=self._access
            )
        return await question(self._client)

    def topics(self) -> dict[str, list[int]]:
        """Every topic that is not internal, and its partitions."""
        views: list[TopicView] = self.ask(lambda client: list_topics(client))
        return {view.name: sorted(view.leaders) for view in views if not view.is_internal}

    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(topic, index) for topic, parts in self.topics().items() for index in parts]

    def partitions_of(self, topic: str) -> list[int]:
        return sorted(self.ask(lambda client: client.topic(topic)).leaders)

    def cluster_id(self) -> str | None:
        async def told(client: Client) -> str | None:
            await client.metadata([])
            return client.cluster_id

        return self.ask(told)

    def topic_id(self, topic: str) -> str | None:
        """None from a broker that knows no ids."""
        told = self.ask(lambda client: client.topic(topic)).topic_id
        return None if told == ZERO_UUID else format_topic_id(TopicId(told))

    def bounds(self, partition: TopicPartition, *, committed: bool = False) -> Bounds:
        return self.bounds_of(partition.topic, [partition.partition], committed=committed)[partition.partition]

    def bounds_of(self, topic: str, parts: list[int], *, committed: bool) -> dict[int, Bounds]:
        starts = self.ask(lambda client: client.list_offsets(topic, EARLIEST, parts))
        ends = self.ask(lambda client: client.list_offsets(topic, LATEST, parts, committed=committed))
        return {part: Bounds(starts[part].offset, max(starts[part].offset, ends[part].offset)) for part in parts}

    def offset_by_time(self, partition: TopicPartition, timestamp: int, bounds: Bounds) -> int | None:
        topic, part = partition
        found = self.ask(lambda client: client.list_offsets(topic, timestamp, [part]))[part].offset
        return found if found >= 0 else None

    def configs(self, topic: str) -> dict[str, str] | None:
        """What holds for the topic, set on it or on its broker; None if the broker does not tell settings."""

        async def told(client: Client) -> dict[str, str] | None:
            try:
                return {one.name: one.value or "" for one in await describe_configs(client, "topic", topic)}
            except UnsupportedVersion:
                return None

        return self.ask(told)

    def create(self, topic: str, partitions: int, configs: Mapping[str, str] | None = None) -> None:
        self.ask(lambda client: create_topic(client, topic, partitions=partitions, configs=configs))

    def chunks(
        self, partition: TopicPartition, first: int, end: int, *, committed: bool, fail_on_loss: bool = True
    ) -> Iterator[tuple[Batches, Mask, int]]:
        """(batches, which are to be seen, the first offset that is) for offsets from `first` to before `end`."""
        where = f"{partition.topic}-{partition.partition} at {self.place}"
        position, until = first, time.monotonic() + self._patience
        while position < end:
            part = self._fetch(partition, position, committed=committed)
            if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                start = self.bounds(partition, committed=committed).start
                if fail_on_loss or start <= position:
                    raise DataLost(f"{where}: offset {position} is gone, the log begins at {start}")
                position = start
                continue
            if part.error_code and part.error_code not in _MOVED:
                raise PipelineError(refused(part.error_code, where).message)
            data = part.records
            found = scan(data if isinstance(data, (bytes, memoryview)) else b"", where, before=end)
            if found.fault is not None and not len(found):
                raise found.fault
            if not len(found):
                if data is not None and len(data):  # the next batch begins behind `end`
                    return
                if time.monotonic() > until:
                    raise DataLost(f"{where}: nothing came from offset {position} on, though {end} was promised")
                continue
            until = time.monotonic() + self._patience
            yield found, _seen(found, part.aborted_transactions if committed else None), position
            position = int(found.last_offset[-1]) + 1

    def _fetch(self, partition: TopicPartition, offset: int, *, committed: bool) -> PartitionData:
        topic, index = partition

        async def fetch(client: Client) -> PartitionData:
            connection = await client.to_leader(topic, index)
            topic_id = (await client.topic(topic)).topic_id
            part = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            ask = FetchRequest(
                max_wait_ms=500,
                min_bytes=1,
                max_bytes=FETCH_BYTES,
                isolation_level=int(committed),
                topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[part])],
            )
            at_most = 12 if topic_id == ZERO_UUID else None
            answer = await connection.request(ask, FetchResponse, at_most=at_most, within=20.0)
            if answer.error_code:
                raise refused(answer.error_code, f"{topic}-{index}")
            told = answer.responses[0].partitions[0]
            if told.error_code in _MOVED:
                client.forget(topic)
            return told

        return self.ask(fetch)


def _seen(batches: Batches, aborted: list[AbortedTransaction] | None) -> Mask:
    """The broker names the transactions that were aborted and where they begin; their markers end them."""
    keep = np.ones(len(batches), dtype=np.bool_)
    if not aborted:
        return keep
    ahead = AbortedAhead(aborted)
    markers = batches.markers()
    for row in np.flatnonzero(batches.is_transactional).tolist():
        producer = int(batches.columns["producer_id"][row])
        ahead.reach(int(batches.last_offset[row]))
        if markers[row] == "abort":
            ahead.end(producer)
        elif not batches.is_control[row]:
            keep[row] = not ahead.has(producer)
    return keep
