"""Transactions on a disk that is slow, refuses or heals, and beside background work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from broker_lite.broker import transactions as module
from broker_lite.clock import ManualClock
from broker_lite.config.start import Durability
from broker_lite.coordinator.txns.state import State
from broker_lite.errors import ErrorCode as E
from broker_lite.ids import TRANSACTION_STATE_TOPIC
from tests.apis.test_transactions import Producer, ends, read
from tests.crash.topic_disk import TopicDisk
from tests.support.talk import Talk, talking

both_modes = pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC], ids=lambda mode: mode.value)
both_generations = pytest.mark.parametrize("new", [False, True], ids=["old", "new"])


async def begun(talk: Talk, *, new: bool, name: str = "x", partitions: tuple[int, ...] = (0,)) -> Producer:
    """A producer with a record in each of these partitions of `t`."""
    producer = Producer(talk, name, new=new)
    assert await producer.init() == E.NONE
    if not new:
        assert set(await producer.add("t", *partitions)) == {E.NONE}
    for partition in partitions:
        assert await producer.send(b"a", partition=partition) == E.NONE
    return producer


def state_of(talk: Talk, name: str = "x") -> State:
    return talk.broker.transactions.coordinator.get(name).state


async def until(question: Callable[[], bool]) -> None:
    """Syncs are made by threads: wait for them, but not for ever."""
    with anyio.fail_after(20):
        while not question():
            await anyio.sleep(0.001)


# ---- a disk that refuses


@both_modes
@both_generations
@pytest.mark.parametrize("commit", [True, False])
async def test_once_prepare_is_written_the_answer_is_the_outcome_whatever_becomes_of_the_markers(
    tmp_path: Path, durability: Durability, new: bool, commit: bool
) -> None:
    """As Kafka: it answers when Prepare is in its log and sends the markers behind it, again and again."""
    disk = TopicDisk()
    async with talking(tmp_path, durability=durability, disk=disk) as talk:
        talk.broker.topics.create("t", 2, {})
        producer = await begun(talk, new=new)
        disk.refuse("t")
        assert await producer.end(commit=commit) == E.NONE
        assert ends(await read(talk, committed=True)) == (0, 0)
        if new:
            assert await producer.send(b"next") == E.CONCURRENT_TRANSACTIONS
        else:
            assert await producer.add() == [E.CONCURRENT_TRANSACTIONS]
        await talk.broker.transactions.tick()
        assert state_of(talk) is (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT)
        disk.heal()
        await talk.broker.transactions.tick()
        assert state_of(talk) is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
        data = await read(talk, committed=True)
        assert ends(data) == (2, 1)
        assert [txn.first_offset for txn in data.aborted_transactions or []] == ([] if commit else [0])


@both_modes
async def test_a_partition_that_refuses_its_marker_does_not_keep_it_from_the_others(
    tmp_path: Path, durability: Durability
) -> None:
    disk = TopicDisk()
    async with talking(tmp_path, durability=durability, disk=disk) as talk:
        talk.broker.topics.create("t", 2, {})
        talk.broker.topics.create("a", 1, {})
        producer = await begun(talk, new=True)
        assert await producer.send(b"b", topic="a") == E.NONE
        disk.refuse("a")
        assert await producer.end() == E.NONE
        assert ends(await read(talk, committed=True)) == (2, 1)
        disk.heal()
        for _ in range(3):
            await talk.broker.transactions.tick()
        assert state_of(talk) is State.COMPLETE_COMMIT
        assert ends(await read(talk, committed=False)) == (2, 1), "one marker is enough"


async def test_a_prepare_that_could_not_be_synced_is_neither_acknowledged_nor_carried_out(tmp_path: Path) -> None:
    disk = TopicDisk()
    async with talking(tmp_path, durability=Durability.FSYNC, disk=disk) as talk:
        talk.broker.topics.create("t", 2, {})
        producer = await begun(talk, new=True)
        disk.refuse(TRANSACTION_STATE_TOPIC, "sync")
        assert await producer.end() == E.COORDINATOR_NOT_AVAILABLE
        disk.heal()
        await talk.broker.transactions.tick()
        assert await producer.end() == E.CONCURRENT_TRANSACTIONS
        assert ends(await read(talk, committed=False)) == (1, 0)
    async with talking(tmp_path, durability=Durability.FSYNC) as talk:
        assert state_of(talk).is_complete or state_of(talk) is State.ONGOING


@both_modes
async def test_a_complete_that_is_refused_is_written_later_without_more_markers(
    tmp_path: Path, durability: Durability
) -> None:
    disk = TopicDisk()
    async with talking(tmp_path, durability=durability, disk=disk) as talk:
        talk.broker.topics.create("t", 2, {})
        producer = await begun(talk, new=True)
        disk.refuse(TRANSACTION_STATE_TOPIC, after=1)
        assert await producer.end() == E.NONE
        assert state_of(talk) is State.PREPARE_COMMIT
        disk.heal()
        await talk.broker.transactions.tick()
        assert state_of(talk) is State.COMPLETE_COMMIT
        assert ends(await read(talk, committed=True)) == (2, 1)


# ---- a disk that takes its time


async def test_what_is_prepared_is_completed_once_and_the_next_transaction_is_left_alone(tmp_path: Path) -> None:
    """Background work met a transaction between Prepare and Complete, and put its marker into the next one."""
    disk = TopicDisk()
    async with talking(tmp_path, durability=Durability.FSYNC, disk=disk) as talk:
        talk.broker.topics.create("t", 2, {})
        talk.broker.topics.create("slow", 1, {})
        first = await begun(talk, new=False, name="first")
        second = await begun(talk, new=False, name="second", partitions=(1,))
        assert await first.add("slow") == [E.NONE]
        assert await first.send(b"a", topic="slow") == E.NONE
        disk.hold(TRANSACTION_STATE_TOPIC)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first.end)
            tasks.start_soon(second.end)
            await until(lambda: len(talk.broker.transactions.coordinator.prepared()) == 2)
            tasks.start_soon(talk.broker.transactions.complete_prepared)
            await anyio.wait_all_tasks_blocked()
            for partition in (0, 1):
                assert ends(await read(talk, committed=False, partition=partition)) == (1, 0), "Prepare is not on disk"
            disk.hold("slow")
            disk.release(TRANSACTION_STATE_TOPIC)
            await until(lambda: state_of(talk, "second").is_complete)
            assert await second.add("t", 1) == [E.NONE]
            assert await second.send(b"open", partition=1) == E.NONE
            disk.release("slow")
            await until(lambda: state_of(talk, "first").is_complete)
        assert state_of(talk, "second") is State.ONGOING
        data = await read(talk, committed=True, partition=1)
        assert (ends(data), data.last_stable_offset, data.high_watermark) == ((2, 1), 2, 3)
        assert await second.end(commit=False) == E.NONE
        data = await read(talk, committed=True, partition=1)
        assert [txn.first_offset for txn in data.aborted_transactions or []] == [2]


async def test_a_transaction_whose_end_is_on_its_way_to_the_disk_does_not_time_out(tmp_path: Path) -> None:
    disk, clock = TopicDisk(), ManualClock()
    async with talking(tmp_path, clock, durability=Durability.FSYNC, disk=disk) as talk:
        talk.broker.topics.create("t", 2, {})
        await begun(talk, new=False, name="a")
        late = await begun(talk, new=False, name="b", partitions=(1,))
        disk.hold(TRANSACTION_STATE_TOPIC)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(late.end)
            await until(lambda: state_of(talk, "b").is_prepared)
            clock.advance(3600)
            tasks.start_soon(talk.broker.transactions.tick)
            await until(lambda: state_of(talk, "a").is_prepared)
            disk.release(TRANSACTION_STATE_TOPIC)
        assert state_of(talk, "a") is State.COMPLETE_ABORT
        assert state_of(talk, "b") is State.COMPLETE_COMMIT
        data = await read(talk, committed=True, partition=1)
        assert (ends(data), data.aborted_transactions or []) == ((2, 1), [])


async def test_a_topic_that_is_deleted_while_its_marker_is_synced_does_not_stop_the_end(tmp_path: Path) -> None:
    disk = TopicDisk()
    async with talking(tmp_path, durability=Durability.FSYNC, disk=disk) as talk:
        topic = talk.broker.topics.create("t", 2, {})
        producer = await begun(talk, new=True)
        disk.hold("t")
        codes: list[int] = []

        async def end() -> None:
            codes.append(await producer.end())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end)
            await until(lambda: talk.broker.topics.partition("t", 0).offsets.end == 2)
            talk.broker.delete_topic(topic)
            disk.release("t")
        assert codes == [E.NONE]
        assert state_of(talk) is State.COMPLETE_COMMIT


async def test_whoever_waits_for_a_topic_that_is_deleted_hears_that_it_is_gone(tmp_path: Path) -> None:
    disk = TopicDisk()
    async with talking(tmp_path, durability=Durability.FSYNC, disk=disk) as talk:
        topic = talk.broker.topics.create("t", 2, {})
        disk.hold("t")
        codes: list[int] = []

        async def produce() -> None:
            codes.append((await talk.produce("t", b"a")).error_code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(produce)
            await until(lambda: talk.broker.topics.partition("t", 0).offsets.end == 1)
            talk.broker.delete_topic(topic)
            disk.release("t")
        assert codes == [E.UNKNOWN_TOPIC_OR_PARTITION]


async def test_a_coordinator_whose_topic_is_deleted_while_somebody_waits_says_that_it_is_none(tmp_path: Path) -> None:
    disk = TopicDisk()
    async with talking(tmp_path, durability=Durability.FSYNC, disk=disk) as talk:
        talk.broker.topics.create("t", 2, {})
        producer = await begun(talk, new=False)
        disk.hold(TRANSACTION_STATE_TOPIC)
        codes: list[int] = []

        async def end() -> None:
            codes.append(await producer.end())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end)
            await until(lambda: state_of(talk).is_prepared)
            topic = talk.broker.topics.get(TRANSACTION_STATE_TOPIC)
            assert topic is not None
            talk.broker.delete_topic(topic)
            disk.release(TRANSACTION_STATE_TOPIC)
        assert codes == [E.NOT_COORDINATOR]
        assert talk.broker.transactions.coordinator.find("x") is None


async def test_a_repeat_waits_until_what_it_repeats_is_on_disk(tmp_path: Path) -> None:
    """The first request's connection was cut; nothing is left to write for the second, but much to wait for."""
    disk = TopicDisk()
    async with talking(tmp_path, durability=Durability.FSYNC, disk=disk) as talk:
        talk.broker.topics.create("t", 2, {})
        producer = await begun(talk, new=False)
        assert await producer.end() == E.NONE
        disk.hold(TRANSACTION_STATE_TOPIC)
        answers: list[list[int]] = []

        async def add() -> None:
            answers.append(await producer.add())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(add)
            await until(lambda: state_of(talk) is State.ONGOING)
            tasks.start_soon(add)
            await anyio.wait_all_tasks_blocked()
            assert answers == []
            disk.release(TRANSACTION_STATE_TOPIC)
        assert answers == [[E.NONE], [E.NONE]]


# ---- time


@pytest.mark.parametrize("leap", [3600.0, 86_400.0, -86_400.0, 75 * 365 * 86_400.0, -53 * 365 * 86_400.0])
async def test_a_clock_that_leaps_aborts_no_transaction_and_keeps_none_open(tmp_path: Path, leap: float) -> None:
    clock = ManualClock()
    async with talking(tmp_path, clock) as talk:
        talk.broker.topics.create("t", 2, {})
        producer = await begun(talk, new=False)
        clock.jump_wall(leap)
        clock.advance(30)
        await talk.broker.transactions.tick()
        assert state_of(talk) is State.ONGOING
        assert await producer.end() == E.NONE
        assert await producer.add() == [E.NONE]
        clock.advance(61)
        await talk.broker.transactions.tick()
        assert state_of(talk) is State.COMPLETE_ABORT


async def test_a_transaction_from_the_future_is_open_for_two_time_outs_at_most(tmp_path: Path) -> None:
    """The clock was set back while the broker was off."""
    clock = ManualClock()
    async with talking(tmp_path, clock, durability=Durability.OS) as talk:
        talk.broker.topics.create("t", 2, {})
        await begun(talk, new=False)
    clock.jump_wall(-3600)
    async with talking(tmp_path, clock, durability=Durability.OS) as talk:
        await talk.broker.transactions.tick()
        assert state_of(talk) is State.COMPLETE_ABORT


# ---- records that are too large


async def test_a_transaction_of_too_many_partitions_is_refused_as_long_as_it_can_still_end(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        talk.broker.topics.create("t", 2, {})
        talk.broker.topics.create("many", 2000, {})
        producer = await begun(talk, new=True)
        state = talk.broker.topics.get(TRANSACTION_STATE_TOPIC)
        assert state is not None
        talk.broker.topics.configure(state, {**state.configs, "max.message.bytes": "4000"})
        added, code = 0, E.NONE
        while code is E.NONE and added < 2000:
            code = E((await producer.add("many", *range(added, added + 7)))[0])
            added += 7
        assert code is E.UNKNOWN_SERVER_ERROR
        assert module.RESERVED_TO_END < 4000
        assert await producer.end() == E.NONE
        assert ends(await read(talk, committed=True)) == (2, 1)
