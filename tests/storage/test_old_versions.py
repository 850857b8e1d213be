"""Produce 0 to 2 and Fetch 0 to 3: message sets in and out of a log of batches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from broker_lite.clock import ManualClock
from broker_lite.errors import ErrorCode, Malformed
from broker_lite.records.batch import walk
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.compression import Codec
from broker_lite.records.legacy import messages_of, old_records, write_message, write_wrapper
from broker_lite.records.record import records_of
from broker_lite.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker_lite.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from tests.support.talk import NOW, Talk, talking

CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
async def talk(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Talk]:
    async with talking(tmp_path, clock) as talk:
        talk.broker.topics.create("t", 2, {})
        yield talk


def message_set(version: int, *values: bytes, codec: Codec = Codec.NONE) -> bytes:
    magic = 0 if version < 2 else 1
    if codec:
        return write_wrapper([(at, NOW, None, value) for at, value in enumerate(values)], magic=magic, codec=codec)
    return b"".join(write_message(0, None, value, magic=magic, timestamp=NOW) for value in values)


async def fetch(
    talk: Talk,
    version: int,
    offset: int = 0,
    *,
    max_bytes: int = 1 << 20,
    partitions: tuple[int, ...] = (0,),
    wait_ms: int = 0,
    topic: str = "t",
) -> list[PartitionData]:
    asked = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes) for index in partitions
    ]
    request = FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=max_bytes, topics=[FetchTopic(topic=topic, partitions=asked)]
    )
    return (await talk.ask(request, version, FetchResponse)).responses[0].partitions


def read(answer: PartitionData) -> list[tuple[int, bytes | None]]:
    assert answer.error_code == 0
    assert answer.records is not None
    return [
        (record.offset, None if record.value is None else bytes(record.value))
        for message in messages_of(bytes(memoryview(answer.records)))  # type: ignore[arg-type]
        for record in old_records(message)
    ]


def size(answer: PartitionData) -> int:
    assert answer.records is not None
    return len(answer.records)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_message_set_is_stored_as_a_batch_and_comes_back_in_any_version(
    talk: Talk, version: int, codec: Codec
) -> None:
    await talk.produce("t", b"first", version=9)
    answer = await talk.produce("t", batch=message_set(version, b"a", b"b", codec=codec), version=version)
    assert (answer.error_code, answer.base_offset) == (0, 1)
    new = (await talk.fetch("t", 0)).responses[0].partitions[0]
    batches = list(walk(bytes(memoryview(new.records))))  # type: ignore[arg-type]
    assert [(batch.magic, batch.codec, batch.crc_ok()) for batch in batches] == [(2, 0, True), (2, codec, True)]
    assert [(one.offset, one.value) for one in records_of(batches[1])] == [(1, b"a"), (2, b"b")]
    for old in range(4):
        assert read((await fetch(talk, old))[0]) == [(0, b"first"), (1, b"a"), (2, b"b")]
        assert read((await fetch(talk, old, 2))[0]) == [(2, b"b")]


async def test_a_large_compressed_set_is_checked_elsewhere_and_appended_all_the_same(talk: Talk) -> None:
    values = [b"%d" % at * 10 for at in range(5000)]
    for version in (1, 2):
        answer = await talk.produce("t", batch=message_set(version, *values, codec=Codec.GZIP), version=version)
        assert (answer.error_code, answer.base_offset) == (0, 5000 * (version - 1))
    bad = bytearray(message_set(2, *values, codec=Codec.GZIP))
    bad[-1] ^= 1
    answer = await talk.produce("t", batch=bytes(bad), version=2)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.CORRUPT_MESSAGE, -1)
    assert talk.broker.topics.partition("t", 0).offsets.end == 10_000


async def test_without_acks_a_bad_set_costs_the_connection_and_a_good_one_gets_no_answer(talk: Talk) -> None:
    values = [b"x" * 100] * 1000
    for good in (message_set(1, b"a"), message_set(1, *values)):
        assert await talk.ask_raw(talk.frame(_produce(good, acks=0), 1)) is None
    assert talk.broker.topics.partition("t", 0).offsets.end == 1001
    for bad in (message_set(1, b"a"), message_set(1, *values)):
        with pytest.raises(Malformed, match="CORRUPT_MESSAGE"):
            await talk.ask_raw(talk.frame(_produce(bad[:-1] + b"\0", acks=0), 1))


async def test_an_empty_set_is_accepted_and_leaves_no_trace(talk: Talk) -> None:
    for version in range(3):
        answer = await talk.produce("t", batch=b"", version=version)
        assert (answer.error_code, answer.base_offset) == (0, -1)
    assert talk.broker.topics.partition("t", 0).offsets.end == 0


async def test_the_append_time_is_told_from_version_2_on(talk: Talk) -> None:
    talk.broker.topics.create("stamped", 1, {"message.timestamp.type": "LogAppendTime"})
    answer = await talk.produce("stamped", batch=message_set(2, b"a"), version=2)
    assert answer.log_append_time_ms == NOW
    (message,) = messages_of(bytes(memoryview((await fetch(talk, 2, topic="stamped"))[0].records)))  # type: ignore[arg-type]
    assert (message.is_log_append_time, message.timestamp) == (True, NOW)


async def test_markers_are_stepped_over(talk: Talk) -> None:
    partition = talk.broker.topics.partition("t", 0)
    for _ in range(40):
        partition.append_marker(7, 0, commit=True, coordinator_epoch=0, now_ms=NOW)
    assert read((await fetch(talk, 3, max_bytes=200))[0]) == []
    await talk.produce("t", b"a")
    for version in range(4):
        assert read((await fetch(talk, version, max_bytes=200))[0]) == [(40, b"a")]


async def test_a_reader_in_front_of_a_marker_waits_as_if_nothing_was_there(talk: Talk, clock: ManualClock) -> None:
    talk.broker.topics.partition("t", 0).append_marker(7, 0, commit=True, coordinator_epoch=0, now_ms=NOW)
    answers: list[PartitionData] = []
    async with anyio.create_task_group() as tasks:

        async def wait() -> None:
            answers.extend(await fetch(talk, 2, wait_ms=10_000))

        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert answers == []
        await talk.produce("t", b"a")
    assert read(answers[0]) == [(1, b"a")]


async def test_a_reader_whose_limit_is_below_a_batch_gets_the_messages_that_fit(talk: Talk) -> None:
    await talk.produce("t", *[b"x" * 100] * 50)
    for version in range(4):
        found = read((await fetch(talk, version, max_bytes=500))[0])
        assert [offset for offset, _ in found] == [0, 1, 2]
    assert [offset for offset, _ in read((await fetch(talk, 1, 48, max_bytes=500))[0])] == [48, 49]


async def test_a_message_beyond_the_limit_comes_cut_before_version_3_and_whole_from_then_on(talk: Talk) -> None:
    await talk.produce("t", b"x" * 1000)
    await talk.produce("t", b"y" * 1000, partition=1)
    for version in range(3):
        answers = await fetch(talk, version, max_bytes=100, partitions=(0, 1))
        assert [size(answer) for answer in answers] == [100, 100]
    first, second = await fetch(talk, 3, max_bytes=100, partitions=(0, 1))
    assert [offset for offset, _ in read(first)] == [0]
    assert size(second) == 0


async def test_zstd_is_refused_when_the_reader_comes_to_it(talk: Talk) -> None:
    await talk.produce("t", b"a")
    await talk.produce("t", batch=build_batch([NewRecord(None, b"z")], timestamp=NOW, codec=Codec.ZSTD))
    for version in range(4):
        assert read((await fetch(talk, version))[0]) == [(0, b"a")]
        assert (await fetch(talk, version, 1))[0].error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


async def test_a_topic_that_compresses_with_zstd_is_refused_before_version_10(talk: Talk) -> None:
    talk.broker.topics.create("z", 1, {"compression.type": "zstd"})
    assert (await talk.produce("z", b"a")).error_code == 0
    for version in range(12):
        (answer,) = (await talk.fetch("z", 0, version=version)).responses[0].partitions
        assert answer.error_code == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if version < 10 else 0)


async def test_unknown_topics_and_offsets_out_of_range_are_told_in_old_versions_too(talk: Talk) -> None:
    for version in range(4):
        assert (await fetch(talk, version, topic="no"))[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await fetch(talk, version, 99))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_topic_with_its_own_codec_stores_large_batches_in_it(talk: Talk) -> None:
    talk.broker.topics.create("g", 1, {"compression.type": "gzip"})
    values = [b"%04d" % at * 10 for at in range(3000)]
    for codec in (Codec.NONE, Codec.LZ4, Codec.GZIP):
        batch = build_batch([NewRecord(None, value) for value in values], timestamp=NOW, codec=codec)
        assert (await talk.produce("g", batch=batch)).error_code == 0
    stored = (await talk.fetch("g", 0)).responses[0].partitions[0]
    batches = list(walk(bytes(memoryview(stored.records))))  # type: ignore[arg-type]
    assert [batch.codec for batch in batches] == [Codec.GZIP] * 3
    assert [record.value for record in records_of(batches[1])] == values


async def test_what_was_sent_is_stored_even_if_the_sender_hangs_up_while_it_is_checked(talk: Talk) -> None:
    talk.broker.topics.create("g", 1, {"compression.type": "gzip"})
    batch = build_batch([NewRecord(None, b"x" * 1000)] * 100, timestamp=NOW)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(talk.ask_raw, talk.frame(_produce(batch, acks=0, topic="g"), 9))
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert talk.broker.topics.partition("g", 0).offsets.end == 100


def _produce(records: bytes, *, acks: int, topic: str = "t") -> ProduceRequest:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=memoryview(records))])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[data])
