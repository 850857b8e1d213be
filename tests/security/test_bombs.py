"""Batches that have to be inflated: a few at a time, and not for ever."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
import snappy

from bench.raw import Connection, frame, string
from broker_lite.apis import k00_produce, k02_list_offsets
from broker_lite.apis.k02_list_offsets import MAX_TIMESTAMP
from broker_lite.broker.broker import INFLATING
from broker_lite.config.start import TopicAtStart
from broker_lite.errors import ErrorCode
from broker_lite.records.build import NewRecord, assemble, build_batch
from broker_lite.records.compression import Codec, deflate
from broker_lite.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from broker_lite.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.support.broker import BrokerProcess
from tests.support.talk import Talk, talking

TOPIC = TopicAtStart("t", 1, {"cleanup.policy": "compact"})
SMALL_AND_LARGE = NewRecord(b"k", bytes(60 << 20))
"""Two kilobytes when it comes."""
CEILING = 512 << 10
"""KiB."""


def bomb(codec: Codec = Codec.ZSTD) -> bytes:
    return build_batch([SMALL_AND_LARGE], timestamp=int(time.time() * 1000), codec=codec)


async def test_only_a_few_batches_are_inflated_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy, most, lock, begun = 0, 0, threading.Lock(), threading.Semaphore(0)

    def check(*_: object, **__: object) -> None:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        begun.release()
        begun.acquire(timeout=0.01)
        with lock:
            busy -= 1

    monkeypatch.setattr(k00_produce, "check_any", check)
    batch = bomb()
    async with talking(tmp_path, topics=[TOPIC]) as talk:
        clients = [Talk(talk.broker) for _ in range(30)]
        async with anyio.create_task_group() as tasks:
            for client in clients:
                tasks.start_soon(lambda client=client: client.produce("t", batch=batch))  # type: ignore[misc]
    assert 1 <= most <= INFLATING


async def test_a_check_that_takes_too_long_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(k00_produce, "_LONGEST_CHECK", 0.05)
    monkeypatch.setattr(k00_produce, "check_any", lambda *_, **__: over.wait(20))
    async with talking(tmp_path, topics=[TOPIC]) as talk:
        answer = await talk.produce("t", batch=bomb())
        over.set()
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert (await talk.fetch("t", 0)).responses[0].partitions[0].high_watermark == 0, "nothing was written"


MANY = 500_000
MANY_SMALL = b"\x0c\0\0\0\1\1\0" * MANY
"""Records without anything, all with the time and the place of the first: some kilobytes when they come."""


@dataclass
class Longest:
    seconds: float = 0.0


@asynccontextmanager
async def longest_turn() -> AsyncIterator[Longest]:
    """What the loop had to do at most from one turn to the next, by the time of its own thread."""
    longest, over = Longest(), anyio.Event()

    async def turn() -> None:
        while not over.is_set():
            begin = time.thread_time()
            await anyio.lowlevel.checkpoint()
            longest.seconds = max(longest.seconds, time.thread_time() - begin)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turn)
        await anyio.lowlevel.checkpoint()
        yield longest
        over.set()


def crowd(codec: Codec, now: int, *, raw_block: bool = False, times: int = MANY) -> bytes:
    """A batch that says it ends an hour from now, of records that are all from now: who asks for the last hour has to
    look through all of them."""
    records = MANY_SMALL[: 7 * times]
    payload = bytes(snappy.compress(records)) if raw_block else deflate(codec, records)
    return bytes(
        assemble(
            payload,
            base_offset=0,
            leader_epoch=-1,
            attributes=codec,
            last_offset_delta=times - 1,
            base_timestamp=now,
            max_timestamp=now + 3_000_000,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            count=times,
        )
    )


@pytest.mark.parametrize(
    ("codec", "raw_block"),
    [(Codec.GZIP, False), (Codec.SNAPPY, False), (Codec.SNAPPY, True), (Codec.LZ4, False), (Codec.ZSTD, False)],
)
async def test_a_thread_whose_time_is_over_ends_by_itself(
    codec: Codec, raw_block: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is looked at before, while it is inflated, and while records are read; the third look says no."""
    looks = 0

    def alarm(seconds: float) -> Callable[[], bool]:
        def late() -> bool:
            nonlocal looks
            looks += 1
            return looks >= 3

        return late

    monkeypatch.setattr(k00_produce, "alarm", alarm)
    topic = TopicAtStart("t", 1, {"message.timestamp.before.max.ms": "3600000", "max.message.bytes": "4000000"})
    async with talking(tmp_path, topics=[topic]) as talk:
        answer = await talk.produce("t", batch=crowd(codec, talk.broker.clock.now_ms(), raw_block=raw_block))
        assert (answer.error_code, looks) == (ErrorCode.REQUEST_TIMED_OUT, 3)
        assert (await talk.fetch("t", 0)).responses[0].partitions[0].high_watermark == 0, "nothing was written"


@pytest.mark.slow
async def test_a_batch_from_the_future_stalls_nobody(tmp_path: Path) -> None:
    """On a topic that asks for nothing its records are read all the same, to find those that are too new."""
    async with talking(tmp_path, topics=[TopicAtStart("t", 1, {})]) as talk:
        batch = crowd(Codec.ZSTD, talk.broker.clock.now_ms() + 3_000_000)
        async with longest_turn() as longest:
            answer = await talk.produce("t", batch=batch)
    assert answer.error_code == ErrorCode.NONE or answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert longest.seconds < 0.1


async def test_reading_a_small_bomb_as_in_the_old_days_stalls_nobody(tmp_path: Path) -> None:
    async with talking(tmp_path, topics=[TopicAtStart("t", 1, {})]) as talk:
        batch = crowd(Codec.GZIP, talk.broker.clock.now_ms(), times=80_000)
        assert len(batch) < 2048
        assert (await talk.produce("t", batch=batch)).error_code == 0
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[partition])])
        async with longest_turn() as longest:
            response = await talk.ask(request, 2, FetchResponse)
    assert response.responses[0].partitions[0].records
    assert longest.seconds < 0.1


@pytest.mark.parametrize("timestamp", [MAX_TIMESTAMP, None])
async def test_looking_for_a_time_among_millions_of_records_stalls_nobody(
    tmp_path: Path, timestamp: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(k02_list_offsets, "_LONGEST", 0.2)
    async with talking(tmp_path, topics=[TopicAtStart("t", 1, {})]) as talk:
        now = talk.broker.clock.now_ms()
        wanted = now + 2_000_000 if timestamp is None else timestamp
        assert (await talk.produce("t", batch=crowd(Codec.ZSTD, now))).error_code == 0
        partition = ListOffsetsPartition(partition_index=0, timestamp=wanted)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[partition])])
        async with longest_turn() as longest:
            response = await talk.ask(request, 7, ListOffsetsResponse)
    found = response.topics[0].partitions[0]
    assert (found.error_code, found.offset) == (0, 0), "the first offset of the batch stands for what took too long"
    assert longest.seconds < 0.1


def asked(broker: BrokerProcess, request: bytes, times: int) -> int:
    """The most memory that the broker ever held, in KiB, after so many have asked for the same at once."""

    def ask() -> None:
        with Connection(broker.bootstrap, timeout=90) as connection:
            connection.ask(request)

    threads = [threading.Thread(target=ask) for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = Path(f"/proc/{broker.pid}/status").read_text()
    return next(int(line.split()[1]) for line in said.splitlines() if line.startswith("VmHWM"))


def writing(batch: bytes) -> bytes:
    """Produce v7."""
    head = struct.pack(">hhii", -1, -1, 30_000, 1) + string("t")
    return frame(0, 7, head + struct.pack(">iii", 1, 0, len(batch)) + batch)


@pytest.mark.slow
def test_many_who_write_a_bomb_take_the_memory_of_a_few(tmp_path: Path) -> None:
    batch = bomb()
    assert len(batch) < 4096
    with BrokerProcess(tmp_path, ["--topic", "t,cleanup.policy=compact"]) as broker:
        assert asked(broker, writing(batch), 12) < CEILING


@pytest.mark.slow
def test_many_who_read_a_bomb_as_in_the_old_days_take_the_memory_of_a_few(tmp_path: Path) -> None:
    reading = frame(1, 1, struct.pack(">iiii", -1, 100, 1, 1) + string("t") + struct.pack(">iiqi", 1, 0, 0, 1 << 20))
    with BrokerProcess(tmp_path, ["--topic", "t"]) as broker:
        with Connection(broker.bootstrap) as connection:
            connection.ask(writing(bomb(Codec.GZIP)))
        assert asked(broker, reading, 6) < CEILING
