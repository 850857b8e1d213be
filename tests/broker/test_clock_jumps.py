"""Somebody sets the wall clock while the broker runs: nothing ends early, and nothing is forgotten because of it.

How long something takes is measured by the monotonic clock.  What is forgotten because of its age follows the wall
clock as long as it does not leap (`broker.steady`), for what is gone is gone.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from broker_lite.clock import ManualClock
from broker_lite.config.start import Durability, TopicAtStart
from broker_lite.coordinator.groups.members import Sync
from broker_lite.coordinator.groups.state import State as GroupState
from broker_lite.coordinator.txns.state import State
from broker_lite.errors import ErrorCode
from broker_lite.records.batch import Batch
from broker_lite.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.apis.test_transactions import Producer
from tests.broker.test_groups import commit, committed, joined, joining
from tests.support.talk import NOW, Talk, bytes_of, talking

pytestmark = pytest.mark.slow
HOUR, DAY, YEAR = 3600.0, 86_400.0, 365 * 86_400.0
JUMPS = {
    "an hour on": HOUR,
    "an hour back": -HOUR,
    "a day on": DAY,
    "a day back": -DAY,
    "to 1970": -NOW / 1000,
    "to 2100": 77 * YEAR,
}
ANY_JUMP = pytest.mark.parametrize("jump", JUMPS.values(), ids=list(JUMPS))
MODES = pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])
TOPICS = [TopicAtStart("t", 2, {})]


async def pass_by(clock: ManualClock, seconds: float, *, step: float = 1.0) -> None:
    """With all that the broker does from time to time."""
    while seconds > 0:
        await anyio.wait_all_tasks_blocked()
        clock.advance(min(step, seconds))
        seconds -= step
    await anyio.wait_all_tasks_blocked()


def state(talk: Talk) -> object:
    return talk.broker.groups.of("g").group("g").state


@ANY_JUMP
async def test_a_session_lasts_as_long_as_it_was_given(tmp_path: Path, jump: float) -> None:
    clock = ManualClock(NOW)
    async with talking(tmp_path, clock) as talk:
        await joined(talk, joining())
        await talk.broker.groups.sync(Sync(group="g", member_id="m", generation=1))
        clock.jump_wall(jump)
        await pass_by(clock, 9, step=3)
        assert state(talk) is GroupState.STABLE
        talk.broker.groups.heartbeat("g", "m", None, 1)
        await pass_by(clock, 9, step=3)
        assert state(talk) is GroupState.STABLE
        await pass_by(clock, 2)
        assert state(talk) is GroupState.EMPTY


async def beat(talk: Talk, member: str, epoch: int) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member,
        member_epoch=epoch,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    return await talk.ask(request, 1, ConsumerGroupHeartbeatResponse)


@ANY_JUMP
async def test_a_member_of_the_new_protocol_stays_and_others_are_still_assigned_partitions(
    tmp_path: Path, jump: float
) -> None:
    """The least time between two assignments (KIP-1263) must not become a day because the clock went back by one."""
    clock = ManualClock(NOW)
    settings = {"group.consumer.assignment.interval.ms": "1000"}
    async with talking(tmp_path, clock, topics=TOPICS, settings=settings) as talk:
        epoch = (await beat(talk, "a", 0)).member_epoch
        clock.jump_wall(jump)
        await pass_by(clock, 40, step=10)
        assert (await beat(talk, "a", epoch)).error_code == 0
        assert (await beat(talk, "b", 0)).error_code == 0
        await pass_by(clock, 2)
        epoch = (await beat(talk, "a", epoch)).member_epoch
        epoch = (await beat(talk, "a", epoch)).member_epoch
        group = talk.broker.groups.of("g").group("g")
        assert group.assignment_epoch == group.epoch  # type: ignore[union-attr]
        await pass_by(clock, 50, step=10)
        assert (await beat(talk, "a", epoch)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@MODES
@ANY_JUMP
async def test_an_open_transaction_has_its_time_and_no_more(
    tmp_path: Path, durability: Durability, jump: float
) -> None:
    clock = ManualClock(NOW)
    async with talking(tmp_path, clock, durability=durability, topics=TOPICS) as talk:
        find = talk.broker.transactions.coordinator.find
        before, ends, after = (Producer(talk, name, new=True) for name in ("before", "ends", "after"))
        for producer in (before, ends, after):
            await producer.init(timeout_ms=60_000)
        for producer in (before, ends):
            await producer.send(b"x")
        clock.jump_wall(jump)
        await after.send(b"x", partition=1)
        await pass_by(clock, 30, step=6)
        for name in ("before", "ends", "after"):
            assert (transaction := find(name)) is not None
            assert transaction.state is State.ONGOING
        assert await ends.send(b"y") == 0
        assert await ends.end(commit=True) == 0
        await pass_by(clock, 60, step=10)
        for name in ("before", "after"):
            assert (transaction := find(name)) is not None
            assert transaction.state is State.COMPLETE_ABORT


@ANY_JUMP
async def test_a_transactional_id_is_kept_and_forgotten_when_a_week_is_over(tmp_path: Path, jump: float) -> None:
    clock = ManualClock(NOW)
    async with talking(tmp_path, clock, topics=TOPICS) as talk:
        await Producer(talk, "orders", new=True).init()
        clock.jump_wall(jump)
        await pass_by(clock, 2 * HOUR, step=1800)
        assert talk.broker.transactions.coordinator.find("orders") is not None
        clock.jump_wall(-jump)
        await pass_by(clock, 9 * DAY, step=12 * HOUR)
        assert talk.broker.transactions.coordinator.find("orders") is None


@ANY_JUMP
async def test_offsets_are_kept_and_forgotten_when_their_time_is_over(tmp_path: Path, jump: float) -> None:
    clock = ManualClock(NOW)
    async with talking(tmp_path, clock, topics=TOPICS) as talk:
        commit(talk, 5)
        clock.jump_wall(jump)
        await pass_by(clock, 2 * HOUR, step=1800)
        assert committed(talk) == 5
        clock.jump_wall(-jump)
        await pass_by(clock, 9 * DAY, step=12 * HOUR)
        assert committed(talk) == -1


@MODES
@ANY_JUMP
async def test_a_producers_repeat_is_still_recognised(tmp_path: Path, durability: Durability, jump: float) -> None:
    clock = ManualClock(NOW)
    async with talking(tmp_path, clock, durability=durability, topics=TOPICS) as talk:
        assert (await talk.produce("t", b"x", producer=(5, 0, 0))).base_offset == 0
        clock.jump_wall(jump)
        await pass_by(clock, HOUR, step=1200)
        assert (await talk.produce("t", b"x", producer=(5, 0, 0))).base_offset == 0
        assert talk.broker.topics.partition("t", 0).offsets.end == 1


@MODES
@ANY_JUMP
async def test_records_are_kept_and_offsets_rise_while_log_append_time_may_go_back(
    tmp_path: Path, durability: Durability, jump: float
) -> None:
    clock = ManualClock(NOW)
    configs = {
        "message.timestamp.type": "LogAppendTime",
        "segment.bytes": "200",
        "retention.ms": "1800000",
        "cleanup.policy": "delete",
    }
    topics = [TopicAtStart("t", 1, configs)]
    async with talking(tmp_path, clock, durability=durability, topics=topics) as talk:
        for number in range(5):
            assert (await talk.produce("t", b"x" * 50)).base_offset == number
        clock.jump_wall(jump)
        for number in range(5, 10):
            assert (await talk.produce("t", b"x" * 50)).base_offset == number
        await pass_by(clock, 1500, step=500)
        assert talk.broker.topics.partition("t", 0).offsets.start == 0
        (answer,) = (await talk.fetch("t", 7)).responses[0].partitions
        assert Batch.at(bytes_of(answer)).max_timestamp == NOW + jump * 1000
