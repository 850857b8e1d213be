"""Groups are loaded a piece at a time while the broker serves others."""

from __future__ import annotations

import asyncio
from pathlib import Path

from broker_lite.broker.groups import BYTES_AT_START
from broker_lite.config.start import Durability
from broker_lite.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.apis.test_transactions import Producer, committed_offset
from tests.support.talk import Talk, talking
from tests.transactions.test_reconcile import image

ONE = {"offsets.topic.num.partitions": "1"}
MANY, NOTE = 3000, "n" * 400


async def commit_many(talk: Talk) -> None:
    talk.broker.topics.create("many", MANY, {})
    parts = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata=NOTE)
        for index in range(MANY)
    ]
    topics = [OffsetCommitRequestTopic(name="many", partitions=parts)]
    answer = await talk.ask(OffsetCommitRequest(group_id="other", topics=topics), 8, OffsetCommitResponse)
    assert {part.error_code for part in answer.topics[0].partitions} == {0}


async def test_a_transaction_may_end_at_any_moment_while_its_groups_partition_is_loaded(tmp_path: Path) -> None:
    """A marker that came while the last commits were sorted in was seen by nobody: the offsets stayed pending."""
    async with talking(tmp_path / "a", durability=Durability.OS, settings=ONE) as talk:
        talk.broker.topics.create("t", 1, {})
        producer = Producer(talk, new=True)
        assert await producer.init() == 0
        assert await producer.commit_offset(5) == 0
        await commit_many(talk)
        assert talk.broker.topics.partition("__consumer_offsets", 0).log.size_bytes > BYTES_AT_START
        stopped = image(tmp_path / "a", "b")
    turns = met = 0
    while turns == met:
        turns, met = turns + 1, 0
        again = image(stopped, f"after-{turns}")
        async with talking(again, durability=Durability.OS, settings=ONE) as talk:
            while talk.broker.groups._loading and met < turns:
                await asyncio.sleep(0)
                met += 1
            late = Producer(talk, new=True)
            late.id, late.epoch = producer.id, producer.epoch
            assert await late.end() == 0
            while talk.broker.groups._loading:
                await asyncio.sleep(0)
            assert await committed_offset(talk, stable=True) == (0, 5), f"ended in turn {met} of the load"
    assert turns > 5, "too few turns to meet anything"
