"""The client against a running broker of ours."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import anyio
import pytest

from broker_lite.client.client import EARLIEST, LATEST, MAX_TIMESTAMP, Client
from broker_lite.client.connection import Unreachable
from broker_lite.client.partitioner import partition_for
from broker_lite.client.topics import create_topic, delete_topic, list_topics
from broker_lite.errors import BrokerError, ErrorCode, OffsetOutOfRange, UnknownTopicOrPartition
from broker_lite.records.build import NewRecord
from broker_lite.records.compression import Codec
from broker_lite.records.record import Record
from tests.support.broker import BrokerProcess


@pytest.fixture
async def client(broker: BrokerProcess) -> AsyncIterator[Client]:
    async with await Client.connect(broker.bootstrap, timeout=15) as connected:
        yield connected


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


async def everything(client: Client, topic: str) -> list[tuple[int, Record]]:
    starts = await client.list_offsets(topic, EARLIEST)
    ends = await client.list_offsets(topic, LATEST)
    positions = {index: found.offset for index, found in starts.items()}
    until = {index: found.offset for index, found in ends.items()}
    return [found async for found in client.consume(topic, positions, until=until)]


@pytest.mark.parametrize("codec", list(Codec))
async def test_what_is_written_is_read_back_with_every_codec(client: Client, topic: str, codec: Codec) -> None:
    await create_topic(client, topic, partitions=1)
    written = [NewRecord(b"k%d" % n, b"v" * n, (("h", b"%d" % n),)) for n in range(50)]
    (done,) = await client.produce(topic, written, codec=codec)
    assert (done.partition, done.base_offset) == (0, 0)
    read = [record for _, record in await everything(client, topic)]
    assert [(one.key, one.value, one.headers) for one in read] == [(one.key, one.value, one.headers) for one in written]
    assert [one.offset for one in read] == list(range(50))


async def test_a_key_always_goes_to_the_partition_it_belongs_to(client: Client, topic: str) -> None:
    await create_topic(client, topic, partitions=5)
    for _ in range(2):
        await client.produce(topic, [NewRecord(b"%d" % n, b"") for n in range(20)])
    read = await everything(client, topic)
    assert len(read) == 40
    assert all(partition == partition_for(record.key or b"", 5) for partition, record in read)


@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_every_kind_of_acknowledgement_is_served(client: Client, topic: str, acks: int) -> None:
    await create_topic(client, topic, partitions=1)
    (first,) = await client.produce(topic, [NewRecord(None, b"a")], acks=acks)
    assert first.base_offset == (-1 if acks == 0 else 0)
    (second,) = await client.produce(topic, [NewRecord(None, b"b")], acks=1)
    assert second.base_offset == 1


async def test_a_reader_that_is_at_the_end_is_woken_by_the_next_record(client: Client, topic: str) -> None:
    await create_topic(client, topic, partitions=1)
    read = client.consume(topic, {0: 0}, max_wait_ms=10_000)
    async with await Client.connect(client._first.address) as other, anyio.create_task_group() as tasks:
        tasks.start_soon(other.produce, topic, [NewRecord(None, b"now")])
        with anyio.fail_after(10):
            _, record = await anext(read)
    assert record.value == b"now"


async def test_offsets_are_found_by_time(client: Client, topic: str) -> None:
    await create_topic(client, topic, partitions=1)
    assert (await client.list_offsets(topic, EARLIEST))[0].offset == 0
    now = 1_700_000_000_000
    await client.produce(topic, [NewRecord(None, b"x", timestamp=now + n * 10) for n in range(5)], codec=Codec.GZIP)
    assert (await client.list_offsets(topic, now + 11))[0].offset == 2
    assert (await client.list_offsets(topic, now + 1000))[0].offset == -1
    assert (await client.list_offsets(topic, LATEST))[0].offset == 5
    assert (await client.list_offsets(topic, MAX_TIMESTAMP))[0].timestamp == now + 40


async def test_reading_stops_exactly_at_the_offset_it_was_told(client: Client, topic: str) -> None:
    await create_topic(client, topic, partitions=1)
    await client.produce(topic, [NewRecord(None, b"%d" % n) for n in range(10)])
    read = [record.offset async for _, record in client.consume(topic, {0: 3}, until={0: 7})]
    assert read == [3, 4, 5, 6]


async def test_topics_are_made_listed_and_deleted(client: Client, topic: str) -> None:
    made = await create_topic(client, topic, partitions=3, configs={"retention.ms": "5000"})
    assert made.num_partitions == 3
    view = next(view for view in await list_topics(client) if view.name == topic)
    assert (len(view.partitions), view.topic_id) == (3, made.topic_id)
    with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
        await create_topic(client, topic)
    await delete_topic(client, topic)
    assert topic not in [view.name for view in await list_topics(client)]


async def test_refusals_carry_the_brokers_code_and_words(client: Client, topic: str) -> None:
    with pytest.raises(BrokerError, match=r"Unknown topic config name: no\.such\.key") as refused:
        await create_topic(client, topic, configs={"no.such.key": "1"})
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    with pytest.raises(BrokerError) as missing:
        await client.topic(topic)
    assert missing.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await create_topic(client, topic, partitions=1)
    with pytest.raises(OffsetOutOfRange, match="offset 99 of"):
        await anext(client.consume(topic, {0: 99}))
    with pytest.raises(UnknownTopicOrPartition, match="has no partition 7; it has 1"):
        await client.to_leader(topic, 7)


async def test_a_topic_is_made_by_the_first_record(client: Client, topic: str) -> None:
    await client.produce(topic, [NewRecord(None, b"first")])
    assert [record.value for _, record in await everything(client, topic)] == [b"first"]


async def test_the_second_address_counts_if_the_first_does_not_answer(broker: BrokerProcess) -> None:
    async with await Client.connect(f"127.0.0.1:1,{broker.bootstrap}") as client:
        assert (await client.metadata([])).brokers
    with pytest.raises(Unreachable, match=r"127.0.0.1:1: Connection refused; .*127.0.0.1:2: Connection refused"):
        await Client.connect("127.0.0.1:1,127.0.0.1:2")
