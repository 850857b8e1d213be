"""A client for people who want an answer, not throughput: topics, offsets, produce, fetch.

    async with await Client.connect("localhost:9092") as client:
        await create_topic(client, "greetings", partitions=3)
        await client.produce("greetings", [NewRecord(b"key", b"value")])
        async for partition, record in client.consume("greetings", {0: 0}):
            ...

It asks any broker for the cluster's metadata and sends each request where it belongs.  A refusal that only says
"ask another broker" or "not yet" is tried again until the time is over; every other one is raised as the BrokerError
with its code.  A broker that cannot be talked to is `Unreachable`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TypeVar

import anyio

from broker_lite.client.access import Access
from broker_lite.client.connection import Connection, Unreachable
from broker_lite.client.partitioner import partition_for
from broker_lite.client.views import FoundOffset, Produced, TopicView, parse_bootstrap, refused, view_of
from broker_lite.errors import BrokerError, ErrorCode, UnknownTopicOrPartition, refusal
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.compression import Codec
from broker_lite.records.record import Record
from broker_lite.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from broker_lite.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from broker_lite.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from broker_lite.wire.schema import ZERO_UUID

R = TypeVar("R")

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3

_LOOK_AGAIN = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5


class Client:
    def __init__(self, first: Connection, *, client_id: str, timeout: float, access: Access | None = None) -> None:
        self.timeout = timeout
        self._access = access
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.addresses: dict[int, tuple[str, int]] = {}
        self._first = first
        self._client_id = client_id
        self._connections: dict[int, Connection] = {}
        self._topics: dict[str, TopicView] = {}
        self._turn = itertools.count()

    @classmethod
    async def connect(
        cls, bootstrap: str, *, client_id: str = "broker-lite", timeout: float = 10.0, access: Access | None = None
    ) -> Client:
        """Talk to the first of `HOST:PORT,HOST:PORT…` that answers."""
        failed: list[str] = []
        for host, port in parse_bootstrap(bootstrap):
            try:
                first = await Connection.open(host, port, client_id=client_id, timeout=timeout, access=access)
            except Unreachable as error:
                failed.append(str(error))
                continue
            return cls(first, client_id=client_id, timeout=timeout, access=access)
        raise Unreachable("; ".join(failed))

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        for connection in [self._first, *self._connections.values()]:
            with anyio.CancelScope(shield=True):
                await connection.close()
        self._connections.clear()

    # Requests and where they go.

    @property
    def offered(self) -> Mapping[int, tuple[int, int]]:
        """API key -> lowest and highest version that the first broker speaks."""
        return self._first.offered

    def version_for(self, request: type) -> int:
        """The highest version that the first broker and we know. UnsupportedVersion if there is none."""
        return self._first.version_for(request)

    async def request(
        self, message: object, answer: type[R], *, at_most: int | None = None, within: float | None = None
    ) -> R:
        """Ask any broker."""
        return await self._first.request(message, answer, at_most=at_most, within=within)

    async def to_node(self, node: int) -> Connection:
        """The connection to one broker, opened if need be."""
        connection = self._connections.get(node)
        if connection is None or connection.closed:
            if node not in self.addresses:
                await self.metadata([])
            if node not in self.addresses:
                raise Unreachable(f"broker {node} is not in the cluster's metadata")
            host, port = self.addresses[node]
            connection = await Connection.open(
                host, port, client_id=self._client_id, timeout=self.timeout, access=self._access
            )
            self._connections[node] = connection
        return connection

    async def to_leader(self, topic: str, partition: int) -> Connection:
        """The connection to the broker that leads a partition."""
        leaders = (await self.topic(topic)).leaders
        if partition not in leaders:
            raise UnknownTopicOrPartition(f"{topic} has no partition {partition}; it has {len(leaders)}")
        if leaders[partition] < 0:
            raise refusal(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader now")
        return await self.to_node(leaders[partition])

    async def to_controller(self) -> Connection:
        if self.controller_id < 0:
            await self.metadata([])
        return self._first if self.controller_id < 0 else await self.to_node(self.controller_id)

    async def patiently(self, attempt: Callable[[], Awaitable[R]], *, topic: str | None = None) -> R:
        """Try until it works, the refusal is a real one, or the time is over."""
        until = time.monotonic() + self.timeout
        pause = _FIRST_PAUSE
        while True:
            try:
                return await attempt()
            except BrokerError as error:
                if error.code not in _LOOK_AGAIN or time.monotonic() + pause > until:
                    raise
            if topic is not None:
                self.forget(topic)
            self.controller_id = -1
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    # Metadata.

    async def metadata(self, topics: Sequence[str] | None, *, create: bool = False) -> MetadataResponse:
        """The cluster and these topics, or all of them. Refusals of single topics are left in the answer."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        ask = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
        if self._first.version_for(MetadataRequest) < 4:
            ask.allow_auto_topic_creation = True  # older brokers decide that alone
        answer = await self._first.request(ask, MetadataResponse)
        if answer.error_code:
            raise refused(answer.error_code, "Metadata")
        self.addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self.cluster_id = answer.cluster_id
        self.controller_id = answer.controller_id
        for topic in answer.topics:
            if topic.name is not None and not topic.error_code:
                self._topics[topic.name] = view_of(topic)
        return answer

    async def topic(self, name: str, *, create: bool = False) -> TopicView:
        """A topic that exists, or (with `create`, where the broker allows it) one that is made now."""
        if name in self._topics:
            return self._topics[name]
        answer = await self.metadata([name], create=create)
        for topic in answer.topics:
            if topic.error_code:
                raise refused(topic.error_code, f"topic {name}")
        return self._topics[name]

    def forget(self, topic: str) -> None:
        """Ask again next time."""
        self._topics.pop(topic, None)

    # Records in and out.

    async def produce(
        self,
        topic: str,
        records: Sequence[NewRecord],
        *,
        partition: int | None = None,
        acks: int = -1,
        codec: Codec = Codec.NONE,
        create: bool = True,
    ) -> list[Produced]:
        """Write the records, one batch per partition.

        Without a partition a key decides as in Kafka's Java client, and records without one share a partition per call.
        """
        if not records:
            return []
        count = len((await self.patiently(lambda: self.topic(topic, create=create), topic=topic)).leaders)
        turn = next(self._turn) % count
        by_partition: dict[int, list[NewRecord]] = {}
        for record in records:
            index = partition
            if index is None:
                index = turn if record.key is None else partition_for(record.key, count)
            by_partition.setdefault(index, []).append(record)
        now = time.time_ns() // 1_000_000
        done: list[Produced] = []
        for index, chosen in by_partition.items():
            batch = build_batch(chosen, timestamp=now, codec=codec)
            done.append(await self.produce_batch(topic, index, batch, acks=acks))
        return done

    async def produce_batch(
        self, topic: str, partition: int, batch: bytes, *, acks: int = -1, transactional_id: str | None = None
    ) -> Produced:
        """Write a batch that is built already."""

        async def attempt() -> Produced:
            connection = await self.to_leader(topic, partition)
            topic_id = (await self.topic(topic)).topic_id
            part = PartitionProduceData(index=partition, records=memoryview(batch))
            ask = ProduceRequest(
                transactional_id=transactional_id,
                acks=acks,
                timeout_ms=int(self.timeout * 1000),
                topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=[part])],
            )
            at_most = 12 if topic_id == ZERO_UUID else None
            if acks == 0:
                await connection.send(ask, at_most=at_most)
                return Produced(partition, -1)
            answer = await connection.request(ask, ProduceResponse, at_most=at_most)
            result = answer.responses[0].partition_responses[0]
            if result.error_code:
                raise refused(result.error_code, result.error_message or f"{topic}-{partition}")
            return Produced(partition, result.base_offset, result.log_append_time_ms)

        return await self.patiently(attempt, topic=topic)

    def consume(
        self,
        topic: str,
        positions: Mapping[int, int],
        *,
        until: Mapping[int, int] | None = None,
        committed: bool = False,
        max_bytes: int = 8 << 20,
        max_wait_ms: int = 500,
    ) -> AsyncIterator[tuple[int, Record]]:
        """(partition, record) from these offsets on: for ever, or up to the offsets in `until`."""
        from broker_lite.client.consume import consume

        return consume(
            self, topic, positions, until=until, committed=committed, max_bytes=max_bytes, max_wait_ms=max_wait_ms
        )

    async def list_offsets(
        self, topic: str, timestamp: int, partitions: Sequence[int] | None = None, *, committed: bool = False
    ) -> dict[int, FoundOffset]:
        """The first offset at or after `timestamp`, or LATEST, EARLIEST, MAX_TIMESTAMP. -1 where there is none."""
        view = await self.topic(topic)

        async def one(partition: int) -> FoundOffset:
            connection = await self.to_leader(topic, partition)
            part = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
            ask = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=int(committed),
                topics=[ListOffsetsTopic(name=topic, partitions=[part])],
                timeout_ms=int(self.timeout * 1000),
            )
            result = (await connection.request(ask, ListOffsetsResponse)).topics[0].partitions[0]
            if result.error_code:
                raise refused(result.error_code, f"{topic}-{partition}")
            return FoundOffset(result.offset, result.timestamp, result.leader_epoch)

        wanted = sorted(view.leaders) if partitions is None else partitions
        return {index: await self.patiently(partial(one, index), topic=topic) for index in wanted}
