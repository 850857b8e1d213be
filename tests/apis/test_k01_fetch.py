from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from broker_lite.clock import ManualClock
from broker_lite.errors import ErrorCode
from broker_lite.records.batch import walk
from broker_lite.wire.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from tests.support.talk import Talk, bytes_of, talking


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path) as talk:
        talk.broker.topics.create("t", 2, {})
        yield talk


def only(response: FetchResponse) -> PartitionData:
    return response.responses[0].partitions[0]


def offsets(data: PartitionData) -> list[int]:
    return [batch.base_offset for batch in walk(memoryview(bytes_of(data)))]


@pytest.mark.parametrize("version", range(4, 13))
async def test_what_was_written_is_read_as_whole_batches(talk: Talk, version: int) -> None:
    await talk.produce("t", b"a", b"b")
    await talk.produce("t", b"c")
    data = only(await talk.fetch("t", 1, version=version))
    assert data.error_code == 0
    assert offsets(data) == [0, 2], "the batch that holds offset 1 comes whole"
    assert data.high_watermark == data.last_stable_offset == 3


@pytest.mark.parametrize("version", range(13, 19))
async def test_topics_by_id(talk: Talk, version: int) -> None:
    await talk.produce("t", b"a")
    topic = talk.broker.topics.get("t")
    assert topic is not None

    async def fetch(topic_id: bytes) -> PartitionData:
        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=1, isolation_level=0, topics=[FetchTopic(topic_id=topic_id, partitions=[asked])]
        )
        return only(await talk.ask(request, version, FetchResponse))

    assert offsets(await fetch(topic.id)) == [0]
    assert (await fetch(b"y" * 16)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_nothing_to_read_is_an_empty_list_and_not_null(talk: Talk) -> None:
    data = only(await talk.fetch("t", 0))
    assert (data.error_code, data.records) == (0, b"")


@pytest.mark.parametrize("offset", [-1, 2])
async def test_an_offset_outside_the_log_is_out_of_range(talk: Talk, offset: int) -> None:
    await talk.produce("t", b"a")
    assert only(await talk.fetch("t", offset)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_an_unknown_topic_is_said_at_once_even_if_the_client_would_wait(talk: Talk) -> None:
    assert only(await talk.fetch("nope", 0, wait_ms=10_000)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_waiting_fetch_is_woken_by_an_append(talk: Talk) -> None:
    got: list[FetchResponse] = []

    async def wait() -> None:
        got.append(await talk.fetch("t", 0, wait_ms=10_000))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert not got
        await talk.produce("t", b"a")
    assert offsets(only(got[0])) == [0]


@pytest.mark.parametrize(("asked_ms", "seconds"), [(500, 0.5), (2**31 - 1, 60)])
async def test_a_waiting_fetch_is_answered_empty_when_its_time_is_over(
    talk: Talk, asked_ms: int, seconds: float
) -> None:
    """Nobody waits for weeks, whatever they asked for."""
    clock = talk.broker.clock
    assert isinstance(clock, ManualClock)
    got: list[FetchResponse] = []

    async def wait() -> None:
        got.append(await talk.fetch("t", 0, wait_ms=asked_ms))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        clock.advance(seconds)
    assert offsets(only(got[0])) == []


async def test_a_waiting_fetch_hears_of_its_topics_deletion(talk: Talk) -> None:
    got: list[FetchResponse] = []

    async def wait() -> None:
        got.append(await talk.fetch("t", 0, wait_ms=10_000))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        topic = talk.broker.topics.get("t")
        assert topic is not None
        talk.broker.delete_topic(topic)
    assert only(got[0]).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def ask_for(
    *partitions: tuple[int, int],
    limit: int = 1 << 20,
    of_each: int | None = None,
    min_bytes: int = 1,
    wait_ms: int = 0,
    committed: bool = False,
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=limit,
        isolation_level=int(committed),
        topics=[
            FetchTopic(
                topic="t",
                partitions=[
                    FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=of_each or limit)
                    for index, offset in partitions
                ],
            )
        ],
    )


async def test_one_batch_is_given_even_if_it_is_larger_than_the_limit(talk: Talk) -> None:
    await talk.produce("t", b"x" * 1000)
    await talk.produce("t", b"y" * 1000, partition=1)
    response = await talk.ask(ask_for((0, 0), (1, 0), limit=10), 11, FetchResponse)
    assert [offsets(data) for data in response.responses[0].partitions] == [[0], []]


async def test_many_bytes_are_waited_for(talk: Talk) -> None:
    got: list[FetchResponse] = []

    async def wait() -> None:
        got.append(await talk.ask(ask_for((0, 0), min_bytes=1500, wait_ms=10_000), 11, FetchResponse))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await talk.produce("t", b"x" * 1000)
        await anyio.wait_all_tasks_blocked()
        assert not got
        await talk.produce("t", b"x" * 1000)
    assert offsets(only(got[0])) == [0, 1]


PATIENCE = 10_000
"""In milliseconds of a clock that stands still: who waits for that has waited for nothing."""


@pytest.mark.parametrize(
    "request_",
    [
        ask_for((0, 0), limit=2500, min_bytes=2500, wait_ms=PATIENCE),
        ask_for((0, 0), of_each=2500, min_bytes=2500, wait_ms=PATIENCE),
        ask_for((0, 0), of_each=2500, min_bytes=2500, wait_ms=PATIENCE, committed=True),
        ask_for((0, 0), (1, 0), of_each=2500, min_bytes=5000, wait_ms=PATIENCE),
        ask_for((0, 2), (1, 0), limit=3500, min_bytes=3500, wait_ms=PATIENCE),
    ],
    ids=["of all", "of a partition", "of what is committed", "of two partitions", "with a partition left out"],
)
async def test_a_fetch_is_enough_when_its_limit_is_reached_within_a_batch(talk: Talk, request_: FetchRequest) -> None:
    """Kafka fills it with a part of that batch, we leave it out; nobody waits for bytes that could not be sent."""
    for partition in (0, 1):
        for _ in range(5):
            await talk.produce("t", b"x" * 1000, partition=partition)
    with anyio.fail_after(5):
        response = await talk.ask(request_, 11, FetchResponse)
    assert offsets(only(response)) in ([0, 1], [2, 3, 4])


async def test_what_no_limit_lets_through_is_waited_for(talk: Talk) -> None:
    """Less than asked for, however much there is: as in Kafka."""
    got: list[FetchResponse] = []

    async def wait() -> None:
        request = ask_for((0, 0), (1, 0), of_each=2500, min_bytes=5000, wait_ms=PATIENCE)
        got.append(await talk.ask(request, 11, FetchResponse))

    for _ in range(9):
        await talk.produce("t", b"x" * 1000)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        for _ in range(2):
            await talk.produce("t", b"x" * 1000, partition=1)
        await anyio.wait_all_tasks_blocked()
        assert not got
        await talk.produce("t", b"x" * 1000, partition=1)
    assert [offsets(data) for data in got[0].responses[0].partitions] == [[0, 1], [0, 1]]


@pytest.mark.parametrize("committed", [False, True])
async def test_the_rest_of_a_sealed_segment_is_enough(talk: Talk, committed: bool) -> None:
    """However little it is, it will not become more."""
    talk.broker.topics.create("rolling", 1, {"segment.bytes": "2500"})
    for _ in range(5):
        await talk.produce("rolling", b"x" * 1000)
    request = ask_for((0, 1), min_bytes=5000, wait_ms=PATIENCE, committed=committed)
    request.topics[0].topic = "rolling"
    with anyio.fail_after(5):
        assert offsets(only(await talk.ask(request, 11, FetchResponse))) == [1]


async def test_a_reader_with_another_leader_epoch_is_fenced(talk: Talk) -> None:
    now = talk.broker.topics.partition("t", 0).leader_epoch
    request = ask_for((0, 0))
    for epoch, code in ((now, 0), (now - 1, ErrorCode.FENCED_LEADER_EPOCH), (now + 1, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        request.topics[0].partitions[0].current_leader_epoch = epoch
        expected = 0 if epoch == -1 else code
        assert only(await talk.ask(request, 11, FetchResponse)).error_code == expected


async def test_a_reader_whose_log_diverged_is_told_where(talk: Talk) -> None:
    await talk.produce("t", b"a")
    now = talk.broker.topics.partition("t", 0).leader_epoch
    request = ask_for((0, 1))
    request.topics[0].partitions[0].last_fetched_epoch = now + 5
    assert only(await talk.ask(request, 12, FetchResponse)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    request.topics[0].partitions[0].last_fetched_epoch = now
    data = only(await talk.ask(request, 12, FetchResponse))
    assert (data.error_code, data.diverging_epoch.epoch) == (0, -1)


async def test_a_session_answers_only_with_news(talk: Talk) -> None:
    request = ask_for((0, 0), (1, 0))
    request.session_epoch = 0
    opened = await talk.ask(request, 11, FetchResponse)
    assert opened.session_id > 0
    assert len(opened.responses[0].partitions) == 2
    follow_up = FetchRequest(
        max_wait_ms=0, min_bytes=1, isolation_level=0, session_id=opened.session_id, session_epoch=1, topics=[]
    )
    assert (await talk.ask(follow_up, 11, FetchResponse)).responses == []
    await talk.produce("t", b"a", partition=1)
    follow_up.session_epoch = 2
    news = await talk.ask(follow_up, 11, FetchResponse)
    assert [(data.partition_index, offsets(data)) for data in news.responses[0].partitions] == [(1, [0])]
    follow_up.session_epoch = 3
    follow_up.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[1])]
    assert (await talk.ask(follow_up, 11, FetchResponse)).responses == []
    follow_up.session_epoch = 9
    assert (await talk.ask(follow_up, 11, FetchResponse)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    follow_up.session_id += 1
    assert (await talk.ask(follow_up, 11, FetchResponse)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
