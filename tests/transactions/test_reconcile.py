"""Power cuts that take the end of one log and not of another: nobody waits for ever, and what was decided stays so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker_lite.config.start import Durability
from broker_lite.coordinator.txns.reconcile import Verdict, judge
from broker_lite.coordinator.txns.state import State, Transaction
from broker_lite.ids import TopicPartition
from broker_lite.records.batch import walk
from tests.apis.test_transactions import Producer, committed_offset, ends, read
from tests.crash.topic_disk import TopicDisk
from tests.support.talk import Talk, talking

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def image(running: Path, name: str) -> Path:
    """The data folder as it is now: what kill -9 leaves."""
    return Path(shutil.copytree(running, running.with_name(name)))


def cut(root: Path, folder: str, batches: int) -> None:
    """Of the newest log in such a folder the last batches are gone."""
    (path,) = [log for log in root.glob(f"{folder}/*.log") if log.stat().st_size]
    data = path.read_bytes()
    kept = list(walk(memoryview(data)))[: -batches or None]
    path.write_bytes(data[: sum(batch.size for batch in kept)])
    for index in path.parent.glob("*index"):
        index.unlink()


async def begun(talk: Talk, *, new: bool = True) -> Producer:
    talk.broker.topics.create("t", 2, {})
    producer = Producer(talk, new=new)
    assert await producer.init() == 0
    if not new:
        assert await producer.add("t", 0, 1) == [0, 0]
    assert await producer.send(b"a") == 0
    assert await producer.send(b"b", partition=1) == 0
    return producer


@pytest.mark.parametrize("lost", [1, 2])
@pytest.mark.parametrize("commit", [True, False])
async def test_a_partition_whose_addition_was_lost_is_still_in_its_transaction(
    tmp_path: Path, lost: int, commit: bool
) -> None:
    async with talking(tmp_path / "a", durability=Durability.OS) as talk:
        producer = await begun(talk)
        crashed = image(tmp_path / "a", "b")
    cut(crashed, "__transaction_state-*", lost)
    async with talking(crashed, durability=Durability.OS) as talk:
        producer.talk = talk
        assert talk.broker.transactions.coordinator.get("x").partitions == {P0, P1}
        assert await producer.send(b"more") == 0
        assert await producer.end(commit=commit) == 0
        for partition, batches in ((0, 3), (1, 2)):
            data = await read(talk, committed=True, partition=partition)
            assert ends(data) == (batches, 1)
            assert bool(data.aborted_transactions) == (not commit)


async def test_a_transaction_that_nobody_remembers_is_aborted(tmp_path: Path) -> None:
    async with talking(tmp_path / "a", durability=Durability.OS) as talk:
        producer = await begun(talk)
        crashed = image(tmp_path / "a", "b")
    cut(crashed, "__transaction_state-*", 3)
    for _ in range(2):
        async with talking(crashed, durability=Durability.OS) as talk:
            assert talk.broker.transactions.coordinator.find("x") is None
            for partition in (0, 1):
                data = await read(talk, committed=True, partition=partition)
                assert data.last_stable_offset == data.high_watermark == 2
                assert [txn.producer_id for txn in data.aborted_transactions or []] == [producer.id]
    async with talking(crashed, durability=Durability.OS) as talk:
        newcomer = Producer(talk, new=True)
        assert await newcomer.init() == 0
        assert newcomer.id != producer.id, "an id that wrote is never given out again"
        assert await newcomer.send(b"c") == 0
        assert await newcomer.end() == 0


@pytest.mark.parametrize("commit", [True, False])
async def test_a_lost_marker_is_written_again_as_it_was_decided(tmp_path: Path, commit: bool) -> None:
    async with talking(tmp_path / "a", durability=Durability.OS) as talk:
        producer = await begun(talk)
        assert await producer.end(commit=commit) == 0
        crashed = image(tmp_path / "a", "b")
    cut(crashed, "t-1", 1)
    async with talking(crashed, durability=Durability.OS) as talk:
        data = await read(talk, committed=True, partition=1)
        assert ends(data) == (2, 1)
        assert bool(data.aborted_transactions) == (not commit)
        producer.talk = talk
        assert await producer.send(b"next", partition=1) == 0
        assert await producer.end() == 0


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("commit", [True, False])
async def test_finishing_a_decided_transaction_twice_changes_nothing(tmp_path: Path, new: bool, commit: bool) -> None:
    async with talking(tmp_path / "a", durability=Durability.OS) as talk:
        producer = await begun(talk, new=new)
        if new:
            assert await producer.commit_offset(7) == 0
        assert await producer.end(commit=commit) == 0
        crashed = image(tmp_path / "a", "b")
    for times in (2, 3):
        cut(crashed, "__transaction_state-*", 1)  # Complete is lost, Prepare is there
        async with talking(tmp_path / "b", durability=Durability.OS) as talk:
            assert talk.broker.transactions.coordinator.get("x").state.is_complete
            for partition in (0, 1):
                data = await read(talk, committed=True, partition=partition)
                assert ends(data) == (times + 1, times), "one more marker each time"
                aborted = [txn.first_offset for txn in data.aborted_transactions or []]
                assert aborted == ([] if commit else [0])
                assert data.last_stable_offset == data.high_watermark
            if new:
                assert await committed_offset(talk, stable=True) == (0, 7 if commit else -1)
            crashed = image(tmp_path / "b", "c")
        shutil.rmtree(tmp_path / "b")
        crashed = crashed.rename(tmp_path / "b")


@pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])
@pytest.mark.parametrize("lost", [1, 2])
@pytest.mark.parametrize("commit", [True, False])
async def test_a_producer_that_goes_on_after_its_end_is_not_held_up_by_a_power_cut(
    tmp_path: Path, durability: Durability, lost: int, commit: bool
) -> None:
    """Prepare and the markers are safe, so the end was answered; Complete and the next addition are not, but the next
    record is: acknowledged, with the epoch that the end brought."""
    async with talking(tmp_path / "a", durability=durability) as talk:
        producer = await begun(talk)
        assert await producer.end(commit=commit) == 0
        assert await producer.send(b"next") == 0
        crashed = image(tmp_path / "a", "b")
    cut(crashed, "__transaction_state-*", lost)
    async with talking(crashed, durability=durability) as talk:
        assert talk.broker.transactions.coordinator.get("x").partitions == {P0}
        producer.talk = talk
        assert await producer.send(b"more") == 0
        assert await producer.end() == 0
        data = await read(talk, committed=True)
        assert data.last_stable_offset == data.high_watermark
        assert [txn.first_offset for txn in data.aborted_transactions or []] == ([] if commit else [0])


async def test_a_start_whose_disk_refuses_a_marker_writes_it_when_it_can(tmp_path: Path) -> None:
    async with talking(tmp_path / "a", durability=Durability.OS) as talk:
        await begun(talk)
        crashed = image(tmp_path / "a", "b")
    cut(crashed, "__transaction_state-*", 3)
    disk = TopicDisk()
    disk.refuse("t")
    async with talking(crashed, durability=Durability.OS, disk=disk) as talk:
        assert (await read(talk, committed=True)).last_stable_offset == 0
        disk.heal()
        await talk.broker.transactions.tick()
        data = await read(talk, committed=True)
        assert data.last_stable_offset == data.high_watermark == 2


def held(state: State, epoch: int, *partitions: TopicPartition, version: int = 0) -> Transaction:
    return Transaction("x", 7, epoch, 1000, 0, state=state, partitions=frozenset(partitions), version=version)


@pytest.mark.parametrize(
    ("transaction", "verdict"),
    [
        (None, Verdict.ABORT),
        (held(State.ONGOING, 3, P0), Verdict.KNOWN),
        (held(State.PREPARE_COMMIT, 4, P0), Verdict.KNOWN),
        (held(State.PREPARE_ABORT, 3, P0), Verdict.KNOWN),
        (held(State.PREPARE_COMMIT, 4, P0, version=2), Verdict.KNOWN),
        (held(State.PREPARE_COMMIT, 3, P0, version=2), Verdict.LATER),
        (held(State.PREPARE_ABORT, 2, P0), Verdict.LATER),
        (held(State.ONGOING, 3, P1), Verdict.JOINS),
        (held(State.EMPTY, 3), Verdict.JOINS),
        (held(State.COMPLETE_ABORT, 3), Verdict.JOINS),
        (held(State.ONGOING, 4, P1), Verdict.ABORT),
        (held(State.PREPARE_COMMIT, 4, P1), Verdict.COMMIT),
        (held(State.PREPARE_ABORT, 4, P1), Verdict.ABORT),
        (held(State.COMPLETE_COMMIT, 4), Verdict.COMMIT),
        (held(State.COMPLETE_ABORT, 4), Verdict.ABORT),
        (held(State.COMPLETE_COMMIT, 5), Verdict.ABORT),
        (held(State.EMPTY, 2), Verdict.ABORT),
    ],
)
def test_what_is_open_in_a_partition_is_held_against_what_the_coordinator_knows(
    transaction: Transaction | None, verdict: Verdict
) -> None:
    assert judge(transaction, P0, 3) is verdict
