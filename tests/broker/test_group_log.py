"""Groups on a disk that refuses and heals, and in a log that has less room than they need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import anyio
import pytest

from broker_lite.broker import broker as broker_module
from broker_lite.broker.groups import TIMERS_A_TURN
from broker_lite.clock import ManualClock
from broker_lite.config.start import Durability
from broker_lite.coordinator.groups.classic import ClassicGroup
from broker_lite.coordinator.groups.consumer import ConsumerGroup
from broker_lite.coordinator.groups.heartbeat import Beat, Beaten
from broker_lite.coordinator.groups.members import Join, Joined, Sync
from broker_lite.coordinator.groups.state import State
from broker_lite.errors import BrokerError, CoordinatorNotAvailable, ErrorCode
from broker_lite.ids import GROUP_OFFSETS_TOPIC
from broker_lite.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from broker_lite.wire.messages.k42_delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tests.broker.test_groups import commit, committed, everybody_has_come, joining, settle
from tests.crash.faulty_disk import FaultyDisk
from tests.support.talk import Talk, talking

BOTH = pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])
ONE = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FaultyDisk:
    disk = FaultyDisk(refusing="append", lasting=True)
    monkeypatch.setattr(broker_module, "RealDisk", lambda: disk)
    return disk


@contextmanager
def refusing(disk: FaultyDisk, what: str = "append") -> Iterator[None]:
    disk.refuse_at, disk.refusing = disk.calls + 1, what
    yield
    disk.refuse_at = 0


def small_log(talk: Talk, limit: int, key: str = "max.message.bytes") -> None:
    """No batch of the groups' log may have more bytes."""
    topic = talk.broker.internal_topic(GROUP_OFFSETS_TOPIC)
    talk.broker.topics.configure(topic, {**topic.configs, key: str(limit)})


def beat(talk: Talk, member: str, epoch: int = 0, *, group: str = "k", **more: object) -> Beaten:
    if epoch == 0:
        more = {"rebalance_timeout_ms": 10_000, "topics": ["t"], "owned": frozenset(), **more}
    return talk.broker.groups.beat(Beat(group=group, member_id=member, epoch=epoch, **more))  # type: ignore[arg-type]


async def pass_by(talk: Talk, seconds: float, meanwhile: Callable[[], object] = lambda: None) -> None:
    for _ in range(round(seconds)):
        cast(ManualClock, talk.broker.clock).advance(1)
        await settle()
        meanwhile()


def consumers(talk: Talk, group: str = "k") -> ConsumerGroup:
    found = talk.broker.groups.of(group).group(group)
    assert isinstance(found, ConsumerGroup)
    return found


def classic(talk: Talk, group: str = "g") -> ClassicGroup:
    found = talk.broker.groups.of(group).group(group)
    assert isinstance(found, ClassicGroup)
    return found


async def joined(talk: Talk, asked: Join) -> Joined:
    """Time goes by only until the round has ended, not while the disk is waited for."""
    answers: list[Joined] = []

    async def ask() -> None:
        answers.append(await talk.broker.groups.join(asked))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await everybody_has_come(talk)
    return answers[0]


async def stable(talk: Talk, member: str = "m", *, group: str = "g") -> None:
    await joined(talk, joining(member, group=group))
    await talk.broker.groups.sync(Sync(group=group, member_id=member, generation=1, assignments={member: b"p"}))


@BOTH
async def test_consumers_that_die_while_the_disk_refuses_lose_their_partitions_when_it_heals(
    tmp_path: Path, disk: FaultyDisk, durability: Durability
) -> None:
    async with talking(tmp_path, durability=durability, settings=ONE) as talk:
        talk.broker.topics.create("t", 4, {})
        beat(talk, "dead")
        with refusing(disk):
            await pass_by(talk, 60)
            assert set(consumers(talk).members) == {"dead"}
        await pass_by(talk, 6)
        assert consumers(talk).members == {}
        answer = beat(talk, "alive").assignment
        assert answer is not None
        assert len(answer) == 4


@BOTH
async def test_a_consumer_that_leaves_while_the_disk_refuses_is_gone_after_its_session(
    tmp_path: Path, disk: FaultyDisk, durability: Durability
) -> None:
    async with talking(tmp_path, durability=durability, settings=ONE) as talk:
        talk.broker.topics.create("t", 4, {})
        beat(talk, "a")
        with refusing(disk), pytest.raises(CoordinatorNotAvailable):
            beat(talk, "a", -1)
        assert set(consumers(talk).members) == {"a"}
        await pass_by(talk, 50)
        assert consumers(talk).members == {}


@BOTH
async def test_a_classic_member_that_dies_while_the_disk_refuses_is_out_when_it_heals(
    tmp_path: Path, disk: FaultyDisk, durability: Durability
) -> None:
    async with talking(tmp_path, durability=durability, settings=ONE) as talk:
        await stable(talk)
        with refusing(disk):
            await pass_by(talk, 20)
            assert classic(talk).state is State.PREPARING_REBALANCE
        await pass_by(talk, 6)
        assert classic(talk).state is State.EMPTY
    async with talking(tmp_path, durability=durability) as talk:
        assert classic(talk).state is State.EMPTY


@BOTH
async def test_a_classic_join_to_an_empty_consumer_group_is_as_if_nobody_asked_if_it_is_refused(
    tmp_path: Path, disk: FaultyDisk, durability: Durability
) -> None:
    async with talking(tmp_path, durability=durability, settings=ONE) as talk:
        talk.broker.topics.create("t", 4, {})
        beat(talk, "a")
        beat(talk, "a", -1)
        with refusing(disk), pytest.raises(CoordinatorNotAvailable):
            await talk.broker.groups.join(joining(group="k"))
        assert consumers(talk).members == {}
        answer = await joined(talk, joining("n", group="k"))
        assert (answer.leader, answer.generation) == ("n", 1)
        assert set(classic(talk, "k").members) == {"n"}


@BOTH
@pytest.mark.parametrize("key", ["max.message.bytes", "segment.bytes"])
async def test_everybody_hears_of_an_assignment_that_is_too_large(
    tmp_path: Path, durability: Durability, key: str
) -> None:
    async with talking(tmp_path, durability=durability, settings=ONE) as talk:
        groups = talk.broker.groups
        refused: dict[str, ErrorCode] = {}
        small_log(talk, 2000, key)

        async def join(name: str) -> None:
            await groups.join(joining(name))

        async def sync(name: str, assignments: dict[str, bytes]) -> None:
            try:
                await groups.sync(Sync(group="g", member_id=name, generation=1, assignments=assignments))
            except BrokerError as error:
                refused[name] = error.code

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(join, "a")
            tasks.start_soon(join, "b")
            await everybody_has_come(talk)
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sync, "b", {})
                await settle()
                tasks.start_soon(sync, "a", {"a": bytes(3000)})
        assert refused == dict.fromkeys("ab", ErrorCode.UNKNOWN_SERVER_ERROR)
        assert classic(talk).state is State.PREPARING_REBALANCE


@BOTH
async def test_all_groups_expire_after_a_start_however_small_a_batch_must_be(
    tmp_path: Path, durability: Durability
) -> None:
    names = [f"group-{number}" for number in range(30)]
    async with talking(tmp_path, durability=durability, settings=ONE) as talk:
        talk.broker.topics.create("t", 1, {})
        for name in names:
            await stable(talk, group=name)
        for number in range(30):
            beat(talk, f"member-{number}")
        small_log(talk, 1000)
    async with talking(tmp_path, durability=durability, settings=ONE) as talk:
        await pass_by(talk, 60)
        assert {classic(talk, name).state for name in names} == {State.EMPTY}
        assert consumers(talk).members == {}


@BOTH
async def test_deletions_are_split_to_fit(tmp_path: Path, durability: Durability) -> None:
    async with talking(tmp_path, durability=durability, settings=ONE) as talk:
        topic = talk.broker.topics.create("t", 100, {})
        small_log(talk, 1000)
        for partition in range(100):
            commit(talk, 5, partition=partition)
        talk.broker.delete_topic(topic)
        assert committed(talk, partition=50) == -1
    async with talking(tmp_path, durability=durability, settings=ONE) as talk:
        assert talk.broker.groups.of("g").offsets.of("g") == {}


async def test_one_offset_that_is_too_large_is_refused(tmp_path: Path) -> None:
    async with talking(tmp_path, settings={**ONE, "offset.metadata.max.bytes": "100000"}) as talk:
        small_log(talk, 2000)
        with pytest.raises(BrokerError) as refused:
            commit(talk, 5, topic="t" * 2500)
        assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


@BOTH
async def test_a_topic_is_deleted_although_its_offsets_cannot_be_and_they_do_not_come_back(
    tmp_path: Path, disk: FaultyDisk, durability: Durability
) -> None:
    async with talking(tmp_path, durability=durability, settings=ONE) as talk:
        topic = talk.broker.topics.create("t", 1, {})
        commit(talk, 7, topic_id=topic.id)
        log = talk.broker.topics.partition(GROUP_OFFSETS_TOPIC, 0).log
        with refusing(disk, "nothing"):
            log._offline = "no space left"
            talk.broker.delete_topic(topic)
            log._offline = ""
        assert talk.broker.topics.get("t") is None
        talk.broker.topics.create("t", 1, {})
        assert committed(talk) == -1
        await pass_by(talk, 6)
        assert talk.broker.groups.of("g").offsets.of("g") == {}


@BOTH
async def test_a_mistake_in_one_group_is_not_the_end_of_all_others(tmp_path: Path, durability: Durability) -> None:
    async with talking(tmp_path, durability=durability, settings=ONE) as talk:
        names = ["a", "broken", "c"]
        for name in names:
            await stable(talk, group=name)
        classic(talk, "broken").members["m"] = cast("object", None)  # type: ignore[assignment]
        await pass_by(talk, 20)
        assert [classic(talk, name).state for name in names] == [State.EMPTY, State.STABLE, State.EMPTY]


async def test_a_sync_that_fails_is_told_as_a_coordinator_that_is_not_there(tmp_path: Path, disk: FaultyDisk) -> None:
    async with talking(tmp_path, durability=Durability.FSYNC, settings=ONE) as talk:
        groups = talk.broker.groups
        commit(talk, 41)
        await cast(Awaitable[None], groups.when_durable("g", None))
        with refusing(disk, "sync"):
            commit(talk, 42)
            with pytest.raises(CoordinatorNotAvailable):
                await cast(Awaitable[None], groups.when_durable("g", None))
        with pytest.raises(CoordinatorNotAvailable):
            await groups.join(joining(group="new"))
        with pytest.raises(CoordinatorNotAvailable):
            commit(talk, 43)
        answer = await fetch_offset(talk)
        assert (answer.error_code, answer.topics) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])


async def test_an_offset_is_not_told_before_it_is_on_disk(tmp_path: Path) -> None:
    async with talking(tmp_path, durability=Durability.FSYNC, settings=ONE) as talk:
        commit(talk, 42)
        partition = talk.broker.topics.partition(GROUP_OFFSETS_TOPIC, 0)
        assert partition.synced_to < partition.offsets.end
        answer = await fetch_offset(talk)
        assert partition.synced_to == partition.offsets.end
        assert answer.topics[0].partitions[0].committed_offset == 42


async def fetch_offset(talk: Talk):  # type: ignore[no-untyped-def]
    asked = OffsetFetchRequestGroup(group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])])
    response = await talk.ask(OffsetFetchRequest(groups=[asked], require_stable=False), 8, OffsetFetchResponse)
    return response.groups[0]


async def test_who_waits_for_the_disk_while_the_groups_log_is_deleted_is_answered(tmp_path: Path) -> None:
    async with talking(tmp_path, durability=Durability.FSYNC, settings=ONE) as talk:
        commit(talk, 42)
        later = cast(Awaitable[str], talk.broker.groups.when_durable("g", "done"))
        topic = talk.broker.topics.get(GROUP_OFFSETS_TOPIC)
        assert topic is not None
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                heard: list[object] = []

                async def wait() -> None:
                    try:
                        heard.append(await later)
                    except BrokerError as error:
                        heard.append(error.code)

                tasks.start_soon(wait)
                talk.broker.delete_topic(topic)
        assert heard[0] in ("done", ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def test_many_that_expire_at_once_leave_the_loop_to_others_in_between(tmp_path: Path) -> None:
    async with talking(tmp_path, settings=ONE) as talk:
        groups = talk.broker.groups
        for number in range(TIMERS_A_TURN + 10):
            asked = joining(f"m{number}")
            asked.id_first = True
            assert (await groups.join(asked)).error is ErrorCode.MEMBER_ID_REQUIRED
        cast(ManualClock, talk.broker.clock).advance(11)
        groups._time_out(0, groups.of("g"), talk.broker.clock.monotonic())
        assert len(classic(talk).pending_join) == 10
        await settle()
        assert not classic(talk).pending_join


async def test_a_deletion_that_never_reached_the_disk_is_told_for_its_group_alone(
    tmp_path: Path, disk: FaultyDisk
) -> None:
    settings = {"offsets.topic.num.partitions": "50"}
    async with talking(tmp_path, durability=Durability.FSYNC, settings=settings) as talk:
        for name in ("g", "other"):
            commit(talk, 1, group=name)
            await talk.broker.groups.durable(name)
        talk.broker.topics.partition(GROUP_OFFSETS_TOPIC, talk.broker.groups.partition_of("g")).go_offline("EIO")
        response = await talk.ask(DeleteGroupsRequest(groups_names=["g", "other"]), 2, DeleteGroupsResponse)
        codes = {result.group_id: result.error_code for result in response.results}
        assert codes == {"g": ErrorCode.COORDINATOR_NOT_AVAILABLE, "other": ErrorCode.NONE}
