from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import cast

import anyio
import anyio.lowlevel
import pytest

from broker_lite.broker import groups as groups_module
from broker_lite.broker.internal_partitions import java_hash, partition_of
from broker_lite.broker.ticket import Ticket
from broker_lite.clock import ManualClock
from broker_lite.config.start import Durability
from broker_lite.coordinator.groups.committing import Commit, Committer
from broker_lite.coordinator.groups.members import Join, Joined, Member, Sync, Synced
from broker_lite.coordinator.groups.state import State
from broker_lite.errors import (
    BrokerError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    ErrorCode,
    RebalanceInProgress,
    UnknownMemberId,
)
from broker_lite.ids import GROUP_OFFSETS_TOPIC, NO_TOPIC_ID, Offset
from tests.support.talk import NOW, Talk, talking


def commit(
    talk: Talk,
    offset: int,
    *,
    group: str = "g",
    topic: str = "t",
    partition: int = 0,
    topic_id: bytes = NO_TOPIC_ID,
) -> None:
    one = Commit(topic, partition, offset, topic_id=topic_id)
    codes = talk.broker.groups.commit(group, Committer(), [one], retention_ms=-1, knows_epochs=True)
    assert codes == [0]


def committed(talk: Talk, *, group: str = "g", topic: str = "t", partition: int = 0) -> int:
    found = talk.broker.groups.of(group).committed(group, topic, partition, stable=False, topic_id=bytes(16))
    return found.offset


def joining(member: str = "m", *, instance: str | None = None, group: str = "g") -> Join:
    return Join(
        group=group,
        instance_id=instance,
        protocol_type="consumer",
        protocols=[("range", b"")],
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        new_member_id=member,
    )


async def joined(talk: Talk, asked: Join) -> Joined:
    answers: list[Joined] = []

    async def ask() -> None:
        answers.append(await talk.broker.groups.join(asked))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        while not answers:
            await anyio.lowlevel.checkpoint()
            cast(ManualClock, talk.broker.clock).advance(0.01)
    return answers[0]


async def settle() -> None:
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


async def everybody_has_come(talk: Talk) -> None:
    """The delay of a new group goes by, and again because somebody else came meanwhile."""
    for _ in range(2):
        await settle()
        cast(ManualClock, talk.broker.clock).advance(0.1)


@pytest.mark.parametrize(
    ("text", "number"),
    [("", 0), ("a", 97), ("group", 98629247), ("polygenelubricants", -(2**31)), ("g€", 11557), ("😀", 1772899)],
)
def test_names_hash_as_in_java(text: str, number: int) -> None:
    assert java_hash(text) == number
    assert 0 <= partition_of(text, 50) < 50


def test_the_one_number_without_an_opposite_goes_to_partition_0() -> None:
    assert partition_of("polygenelubricants", 50) == 0


async def test_offsets_and_members_survive_a_restart(tmp_path: Path) -> None:
    async with talking(tmp_path, durability=Durability.OS) as talk:
        talk.broker.topics.create("t", 2, {})
        commit(talk, 41)
        commit(talk, 42)
        await joined(talk, joining(group="live"))
        asked = Sync(group="live", member_id="m", generation=1, assignments={"m": b"p0"})
        assert (await talk.broker.groups.sync(asked)).assignment == b"p0"
    async with talking(tmp_path, durability=Durability.OS) as talk:
        await settle()
        assert committed(talk) == 42
        member = talk.broker.groups.of("live").group("live").members["m"]
        assert isinstance(member, Member)
        assert member.assignment == b"p0"
        talk.broker.groups.heartbeat("live", "m", None, 1)


async def test_a_group_that_is_not_loaded_yet_is_not_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "BYTES_AT_START", 0)
    async with talking(tmp_path, durability=Durability.OS) as talk:
        commit(talk, 42)
    async with talking(tmp_path, durability=Durability.OS) as talk:
        talk.broker.groups._parts.clear()
        talk.broker.groups.begin()
        with pytest.raises(CoordinatorLoadInProgress):
            talk.broker.groups.of("g")
        with pytest.raises(CoordinatorLoadInProgress):
            list(talk.broker.groups)
        await talk.broker.groups._load()
        assert committed(talk) == 42


async def test_what_was_written_is_loaded_in_its_order(tmp_path: Path) -> None:
    """Plain commits, overtaken ones, transactions of either end, and what stands between them."""
    async with talking(tmp_path, durability=Durability.OS, settings={"offsets.topic.num.partitions": "1"}) as talk:
        groups = talk.broker.groups
        talk.broker.internal_topic(GROUP_OFFSETS_TOPIC)
        partition = talk.broker.topics.partition(GROUP_OFFSETS_TOPIC, 0)
        for offset in range(100):
            commit(talk, offset, partition=0)
        for producer, is_commit in ((7, True), (8, False)):
            one = [Commit("t", 0, 1000 + producer)]
            groups.commit_in_transaction("g", Committer(), one, producer_id=producer, producer_epoch=0)
            partition.append_marker(producer, 0, commit=is_commit, coordinator_epoch=0, now_ms=NOW)
            groups.marker_written(0, producer, commit=is_commit)
        commit(talk, 5, partition=1)
        groups.commit_in_transaction("g", Committer(), [Commit("t", 1, 6)], producer_id=9, producer_epoch=0)
        commit(talk, 7, partition=1)
        partition.append_marker(9, 0, commit=True, coordinator_epoch=0, now_ms=NOW)
        groups.marker_written(0, 9, commit=True)
        commit(talk, 1, group="gone")
        groups.delete("gone")
        before = groups.of("g").offsets.of("g")
        assert (before["t"][0].offset, before["t"][1].offset) == (1007, 7)
    async with talking(tmp_path, durability=Durability.OS) as talk:
        assert talk.broker.groups.of("g").offsets.of("g") == before
        assert [group.id for group in talk.broker.groups] == ["g"]


async def test_sessions_end_by_the_clock(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with talking(tmp_path, clock) as talk:
        await joined(talk, joining())
        await talk.broker.groups.sync(Sync(group="g", member_id="m", generation=1))
        clock.advance(9)
        await settle()
        talk.broker.groups.heartbeat("g", "m", None, 1)
        clock.advance(10.1)
        await settle()
        assert talk.broker.groups.of("g").group("g").state is State.EMPTY


async def test_who_waits_is_answered_when_the_leader_syncs(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        groups = talk.broker.groups
        answers: dict[str, Joined | Synced] = {}

        async def join(name: str) -> None:
            answers[name] = await groups.join(joining(name))

        async def sync(name: str) -> None:
            assignments = {"a": b"0", "b": b"1"} if name == "a" else {}
            answers[name] = await groups.sync(Sync(group="g", member_id=name, generation=1, assignments=assignments))

        for ask in (join, sync):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, "a")
                tasks.start_soon(ask, "b")
                await everybody_has_come(talk)
        assert {name: answer.assignment for name, answer in answers.items() if isinstance(answer, Synced)} == {
            "a": b"0",
            "b": b"1",
        }


async def test_a_connection_that_goes_while_its_member_waits_harms_nobody(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        groups = talk.broker.groups
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(groups.join, joining("gone"))
            await settle()
            tasks.cancel_scope.cancel()
        assert (await joined(talk, joining("here"))).generation == 1
        assert set(groups.of("g").group("g").members) == {"gone", "here"}
        for _ in range(2):
            groups.heartbeat("g", "here", None, 1)
            cast(ManualClock, talk.broker.clock).advance(6)
            await settle()
        with pytest.raises(RebalanceInProgress):
            groups.heartbeat("g", "here", None, 1)
        assert set(groups.of("g").group("g").members) == {"here"}


async def test_in_fsync_mode_an_answer_means_that_it_is_on_disk(tmp_path: Path) -> None:
    async with talking(tmp_path, durability=Durability.FSYNC) as talk:
        commit(talk, 42)
        partition = talk.broker.topics.partition(GROUP_OFFSETS_TOPIC, talk.broker.groups.partition_of("g"))
        answer = talk.broker.groups.when_durable("g", "done")
        assert not isinstance(answer, str)
        assert await answer == "done"
        assert partition.synced_to == partition.offsets.end == Offset(1)


async def test_a_log_that_cannot_be_written_refuses_and_keeps_what_was(tmp_path: Path) -> None:
    async with talking(tmp_path, settings={"offsets.topic.num.partitions": "1"}) as talk:
        commit(talk, 41)
        await joined(talk, joining(group="live"))
        talk.broker.topics.partition(GROUP_OFFSETS_TOPIC, 0).go_offline("no space left")
        with pytest.raises(CoordinatorNotAvailable):
            commit(talk, 42)
        with pytest.raises(CoordinatorNotAvailable):
            await talk.broker.groups.sync(Sync(group="live", member_id="m", generation=1))
        assert committed(talk) == 41
        assert talk.broker.groups.of("live").group("live").state is State.PREPARING_REBALANCE


async def test_offsets_go_with_their_topic(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        topic = talk.broker.topics.create("t", 1, {})
        commit(talk, 1, group="a")
        commit(talk, 2, group="b")
        commit(talk, 3, group="b", topic="other")
        talk.broker.delete_topic(topic)
        assert (committed(talk, group="a"), committed(talk, group="b")) == (-1, -1)
        assert committed(talk, group="b", topic="other") == 3


def delete_offsets_topic(talk: Talk, *others: str) -> None:
    topics = [talk.broker.topics.get(name) for name in (*others, GROUP_OFFSETS_TOPIC)]
    talk.broker.delete_topics([topic for topic in topics if topic is not None])


async def test_groups_go_with_the_topic_that_keeps_them(tmp_path: Path) -> None:
    for again in (False, True):
        async with talking(tmp_path, durability=Durability.OS) as talk:
            if again:
                assert committed(talk) == 3
                return
            talk.broker.topics.create("t", 1, {})
            talk.broker.topics.create("u", 1, {})
            commit(talk, 42)
            commit(talk, 43, group="other", topic="u")
            delete_offsets_topic(talk, "u")
            assert talk.broker.topics.get(GROUP_OFFSETS_TOPIC) is None
            assert list(talk.broker.groups) == []
            assert committed(talk) == -1
            commit(talk, 3)
            assert [group.id for group in talk.broker.groups] == ["g"]


async def test_who_waits_in_a_group_that_goes_is_sent_to_look_for_its_coordinator(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        commit(talk, 1, group="other")
        refused: list[int] = []

        async def sync() -> None:
            try:
                await talk.broker.groups.sync(Sync(group="g", member_id="b", generation=1, assignments={}))
            except BrokerError as error:
                refused.append(error.code)

        async def join(name: str) -> None:
            await talk.broker.groups.join(joining(name))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(join, "a")
            tasks.start_soon(join, "b")
            await everybody_has_come(talk)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sync)
            await settle()
            delete_offsets_topic(talk)
        assert refused == [ErrorCode.NOT_COORDINATOR]
        with pytest.raises(UnknownMemberId):
            talk.broker.groups.heartbeat("g", "b", None, 1)


async def test_groups_that_are_being_loaded_go_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "BYTES_AT_START", 0)
    async with talking(tmp_path, durability=Durability.OS) as talk:
        commit(talk, 42)
        commit(talk, 43, group="other")
    async with talking(tmp_path, durability=Durability.OS) as talk:
        groups = talk.broker.groups
        groups._parts.clear()
        groups.begin()
        loading = groups._load_one(groups.partition_of("g"))
        next(loading)
        delete_offsets_topic(talk)
        assert list(loading) == []
        await groups._load()
        assert list(groups) == []
        assert committed(talk) == committed(talk, group="other") == -1


async def test_old_offsets_are_forgotten_from_time_to_time(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with talking(tmp_path, clock, settings={"offsets.retention.minutes": "60"}) as talk:
        commit(talk, 1)
        for _ in range(7):
            await settle()
            clock.advance(600)
        await settle()
        assert committed(talk) == -1
        assert list(talk.broker.groups) == []


async def test_pending_offsets_survive_a_restart(tmp_path: Path) -> None:
    async with talking(tmp_path, durability=Durability.OS) as talk:
        transactions = talk.broker.transactions
        first, second = [await transactions.init(name, 60_000, None) for name in ("a", "b")]
        for partition, name, producer in ((0, "a", first), (1, "b", second)):
            transactions.check_offsets(name, producer, "g", implicit=True)
            offset = Commit("t", partition, 9 - partition)
            talk.broker.groups.commit_in_transaction(
                "g", Committer(), [offset], producer_id=producer.id, producer_epoch=producer.epoch
            )
        await transactions.end("a", first, commit=True, version=2)
    async with talking(tmp_path, durability=Durability.OS) as talk:
        await settle()
        assert (committed(talk), committed(talk, partition=1)) == (9, -1)
        await talk.broker.transactions.end("b", second, commit=True, version=2)
        assert committed(talk, partition=1) == 8


async def test_a_refusal_that_was_waited_for_leaves_nothing_to_collect() -> None:
    """Raised from where it lay, it held itself, and with its frames the request of who waited."""
    ticket = Ticket()

    async def refused() -> weakref.ref[CoordinatorLoadInProgress]:
        ticket.give(CoordinatorLoadInProgress("wait"))
        try:
            await ticket.wait()
        except CoordinatorLoadInProgress as error:
            return weakref.ref(error)
        raise AssertionError("it was raised")

    gc.disable()
    try:
        assert (await refused())() is None
    finally:
        gc.enable()
