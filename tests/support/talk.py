"""A broker in this process, and somebody who talks to it in whole messages.

Every request goes through its bytes: encoded, framed, answered by the registry, decoded. Only the socket is left out.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar, cast

from broker_lite.apis import registry
from broker_lite.broker.broker import Broker
from broker_lite.broker.responses import ResponseChunk
from broker_lite.clock import Clock, ManualClock
from broker_lite.config.sources import Settings, Source
from broker_lite.config.start import Durability, StartOptions, TopicAtStart
from broker_lite.log.disk import Disk
from broker_lite.log.slice import FileSlice
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.wire.codec import decode, encode
from broker_lite.wire.headers import request_is_flexible, response_is_flexible
from broker_lite.wire.messages import response_class
from broker_lite.wire.messages.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from broker_lite.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from broker_lite.wire.schema import spec_of

R = TypeVar("R")

NOW = 1_700_000_000_000


def options(
    data: Path,
    *,
    durability: Durability = Durability.MEMORY,
    settings: dict[str, str] | None = None,
    topics: list[TopicAtStart] | None = None,
) -> StartOptions:
    return StartOptions(
        settings=Settings({Source.FLAG: settings or {}}),
        listeners=[],
        advertised={},
        data=data,
        durability=durability,
        node_id=1,
        topics=topics or [],
    )


class Talk:
    """One client."""

    def __init__(self, broker: Broker, client_id: str = "test") -> None:
        self.broker = broker
        self.client_id = client_id
        self.facts = registry.ConnectionFacts(
            id=1, listener="PLAINTEXT", peer=("127.0.0.1", 50000), local=("127.0.0.1", 9092)
        )

    def frame(self, request: object, version: int) -> memoryview:
        key = spec_of(type(request)).key
        assert key is not None
        name = self.client_id.encode()
        head = struct.pack(">hhih", key, version, 7, len(name)) + name
        if request_is_flexible(key, version):
            head += b"\0"
        return memoryview(head + b"".join(bytes(cast(bytes, piece)) for piece in encode(request, version)))

    async def ask(self, request: object, version: int, kind: type[R]) -> R:
        """The response, waited for if need be."""
        reply = await self.ask_raw(self.frame(request, version))
        assert reply is not None, "no reply"
        return self.decoded(reply, request, version, kind)

    def decoded(self, reply: bytes, request: object, version: int, kind: type[R]) -> R:
        key = spec_of(type(request)).key
        assert key is not None
        assert response_class(key) is kind
        start = 9 if response_is_flexible(key, version) else 8
        assert struct.unpack_from(">ii", reply) == (len(reply) - 4, 7)
        # A response may hold more than a request.
        response, end = decode(kind, version, memoryview(reply), start, max_elements=1 << 62)
        assert end == len(reply)
        return response

    async def ask_raw(self, frame: memoryview) -> bytes | None:
        answer = registry.answer(self.broker, self.facts, frame)
        pieces = await answer if isinstance(answer, Awaitable) else answer
        if pieces is None:
            return None
        return b"".join(piece if isinstance(piece, bytes) else _read(piece) for piece in pieces)

    async def produce(
        self,
        topic: str,
        *values: bytes,
        partition: int = 0,
        version: int = 9,
        acks: int = -1,
        batch: bytes | None = None,
        producer: tuple[int, int, int] = (-1, -1, -1),
        transactional_id: str | None = None,
    ) -> PartitionProduceResponse:
        """One batch: `values`, or `batch` as it is. `producer` is id, epoch and base sequence."""
        if batch is None:
            batch = build_batch(
                [NewRecord(key=None, value=value) for value in values],
                timestamp=self.broker.clock.now_ms(),
                producer_id=producer[0],
                producer_epoch=producer[1],
                base_sequence=producer[2],
                transactional=transactional_id is not None,
            )
        data = TopicProduceData(
            name=topic, partition_data=[PartitionProduceData(index=partition, records=memoryview(batch))]
        )
        request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[data], transactional_id=transactional_id)
        response = await self.ask(request, version, ProduceResponse)
        return response.responses[0].partition_responses[0]

    async def fetch(
        self,
        topic: str,
        offset: int,
        *,
        partition: int = 0,
        version: int = 11,
        wait_ms: int = 0,
        committed: bool = False,
    ) -> FetchResponse:
        asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=int(committed),
            topics=[FetchTopic(topic=topic, partitions=[asked])],
        )
        return await self.ask(request, version, FetchResponse)


def bytes_of(data: PartitionData) -> bytes:
    """The batches that an answer brought."""
    assert isinstance(data.records, (bytes, memoryview, type(None)))
    return bytes(data.records or b"")


def _read(piece: object) -> bytes:
    if isinstance(piece, (bytearray, memoryview)):
        return bytes(piece)
    assert isinstance(piece, (FileSlice, ResponseChunk))
    data = piece.read(0, len(piece))
    piece.release()
    return data


@asynccontextmanager
async def talking(
    data: Path,
    clock: Clock | None = None,
    *,
    durability: Durability = Durability.MEMORY,
    settings: dict[str, str] | None = None,
    topics: list[TopicAtStart] | None = None,
    disk: Disk | None = None,
) -> AsyncIterator[Talk]:
    """The broker lives in a task of its own, because a fixture may be entered and left in different ones."""
    registry.load()
    wanted = options(data, durability=durability, settings=settings, topics=topics)
    opened: asyncio.Future[Broker] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()

    async def live() -> None:
        try:
            async with Broker.running(wanted, clock or ManualClock(NOW), disk) as broker:
                opened.set_result(broker)
                await stop.wait()
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)

    life = asyncio.create_task(live())
    try:
        yield Talk(await opened)
    finally:
        stop.set()
        await life
