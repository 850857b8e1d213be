"""A transaction that is open for too long: it is aborted, people read why, and its producer can go on."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from broker_lite.clock import ManualClock
from broker_lite.errors import ErrorCode
from tests.apis.test_transactions import Producer, ends, read
from tests.support.talk import Talk, talking


async def pass_by(talk: Talk, steps: int, *, seconds: float = 1.0) -> None:
    clock = talk.broker.clock
    assert isinstance(clock, ManualClock)
    for _ in range(steps):
        await anyio.wait_all_tasks_blocked()
        clock.advance(seconds)
    await anyio.wait_all_tasks_blocked()


async def test_the_log_says_who_held_up_whom_and_for_how_long(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        talk.broker.topics.create("t", 2, {})
        producer = Producer(talk, "orders", new=True)
        await producer.init(timeout_ms=5000)
        await producer.send(b"a", partition=1)
        with capture_logs() as lines:
            await pass_by(talk, 20)
        (told,) = [line for line in lines if line["event"] == "transaction.timed_out"]
        assert told["log_level"] == "warning"
        assert told["transactional_id"] == "orders"
        assert told["producer_id"] == producer.id
        assert told["timeout_ms"] == 5000
        assert 5000 < told["open_for_ms"] <= 20_000
        assert told["holds_up"] == ["t-1"]
        data = await read(talk, committed=True, partition=1)
        assert ends(data) == (2, 1)
        assert data.last_stable_offset == data.high_watermark


async def test_it_is_looked_for_as_often_as_the_configuration_says(tmp_path: Path) -> None:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    async with talking(tmp_path, settings=settings) as talk:
        talk.broker.topics.create("t", 2, {})
        producer = Producer(talk, new=True)
        await producer.init(timeout_ms=300)
        await producer.send(b"a")
        await pass_by(talk, 3, seconds=0.2)
        assert await producer.send(b"late") == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("new", [True, False])
async def test_a_producer_that_was_too_slow_hears_of_it(tmp_path: Path, new: bool) -> None:
    """As Apache Kafka 4.3.1 answers: old producers are fenced, new ones may abort what was aborted and go on."""
    async with talking(tmp_path) as talk:
        talk.broker.topics.create("t", 2, {})
        producer = Producer(talk, new=new)
        await producer.init(timeout_ms=5000)
        if not new:
            await producer.add()
        await producer.send(b"a")
        await pass_by(talk, 20)
        assert await producer.send(b"late") == ErrorCode.INVALID_PRODUCER_EPOCH
        if not new:
            for commit in (True, False):
                assert await producer.end(commit=commit) == ErrorCode.PRODUCER_FENCED
            return
        assert await producer.end(commit=True) == ErrorCode.INVALID_TXN_STATE
        assert await producer.end(commit=False) == 0
        assert await producer.send(b"again") == 0
        assert await producer.end(commit=True) == 0
        assert ends(await read(talk, committed=True)) == (4, 2)
