"""`__transaction_state` is deleted while transactions are open, being ended, or begun anew."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from broker_lite.broker.broker import Broker
from broker_lite.config.start import Durability
from broker_lite.errors import ErrorCode as E
from broker_lite.ids import TRANSACTION_STATE_TOPIC
from tests.apis.test_transactions import Producer, ends, read
from tests.broker.test_transactions import begun, both_generations, both_modes, state_of, until
from tests.crash.topic_disk import TopicDisk
from tests.support.talk import Talk, talking


def delete_state(broker: Broker) -> None:
    topic = broker.topics.get(TRANSACTION_STATE_TOPIC)
    assert topic is not None
    broker.delete_topic(topic)


async def is_stable(talk: Talk, topic: str = "t") -> bool:
    part = (await talk.fetch(topic, 0, committed=True)).responses[0].partitions[0]
    return part.last_stable_offset == part.high_watermark == talk.broker.topics.partition(topic, 0).offsets.end


async def until_stable(talk: Talk, topic: str = "t") -> None:
    with anyio.fail_after(20):
        while not await is_stable(talk, topic):
            await anyio.sleep(0.001)


@both_modes
@both_generations
async def test_what_is_open_is_aborted_when_nobody_remembers_it_any_more(
    tmp_path: Path, durability: Durability, new: bool
) -> None:
    async with talking(tmp_path, durability=durability) as talk:
        talk.broker.topics.create("t", 2, {})
        producer = await begun(talk, new=new)
        delete_state(talk.broker)
        assert talk.broker.topics.get(TRANSACTION_STATE_TOPIC) is None, "nobody has asked for it again"
        await until_stable(talk)
        assert await producer.end() == E.INVALID_PRODUCER_ID_MAPPING
        data = await read(talk, committed=True)
        assert [txn.first_offset for txn in data.aborted_transactions or []] == [0]


@both_modes
@pytest.mark.parametrize("commit", [True, False])
async def test_an_outcome_that_was_answered_is_carried_out_before_it_is_forgotten(
    tmp_path: Path, durability: Durability, commit: bool
) -> None:
    disk = TopicDisk()
    async with talking(tmp_path, durability=durability, disk=disk) as talk:
        talk.broker.topics.create("t", 2, {})
        producer = await begun(talk, new=True)
        disk.refuse("t")
        assert await producer.end(commit=commit) == E.NONE
        disk.heal()
        delete_state(talk.broker)
        await until_stable(talk)
        data = await read(talk, committed=True)
        assert ends(data) == (2, 1)
        assert bool(data.aborted_transactions) == (not commit)


async def test_a_marker_that_is_still_being_synced_does_not_hold_up_who_comes_next_under_that_id(
    tmp_path: Path,
) -> None:
    disk = TopicDisk()
    async with talking(tmp_path, durability=Durability.FSYNC, disk=disk) as talk:
        talk.broker.topics.create("t", 2, {})
        talk.broker.topics.create("u", 1, {})
        before = await begun(talk, new=False)
        disk.hold("t")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(before.end)
            await until(lambda: talk.broker.topics.partition("t", 0).offsets.end == 2)
            delete_state(talk.broker)
            after = Producer(talk)
            assert await after.init() == E.NONE
            assert await after.add("u") == [E.NONE]
            assert await after.send(b"b", topic="u") == E.NONE
            assert await after.end() == E.NONE
            assert state_of(talk).is_complete
            disk.release("t")
        assert await is_stable(talk, "u")
        assert await after.add("u") == [E.NONE]
