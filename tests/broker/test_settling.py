"""Where an answer means that the disk has it, it waits for the journal, and the loop does not."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from broker_lite.broker.settling import AT_LEISURE
from broker_lite.clock import ManualClock
from broker_lite.config.start import Durability
from broker_lite.errors import ErrorCode, StorageFailed
from broker_lite.log.disk import RealFile
from broker_lite.log.sync import SyncJob
from broker_lite.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from broker_lite.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tests.crash.refusing_disk import RefusingDisk, brokers_on
from tests.support.talk import Talk, talking


async def create(talk: Talk, name: str) -> int:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    request = CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False)
    return (await talk.ask(request, 7, CreateTopicsResponse)).topics[0].error_code


async def test_a_topic_is_answered_when_the_disk_has_it_and_the_loop_goes_on_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_answers = threading.Event()
    whole = SyncJob.run

    def slow(job: SyncJob) -> None:
        assert disk_answers.wait(20)
        whole(job)

    async with talking(tmp_path, durability=Durability.FSYNC) as talk:
        monkeypatch.setattr(SyncJob, "run", slow)
        answered: list[object] = []

        async def make() -> None:
            answered.append(await create(talk, "a"))

        async def look() -> None:
            told = await talk.ask(MetadataRequest(topics=None), 12, MetadataResponse)
            answered.append([topic.name for topic in told.topics])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(make)
            while not talk.broker.settling.unsettled:
                await anyio.lowlevel.checkpoint()
            tasks.start_soon(look)  # nobody hears of what may still be lost
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            assert answered == []
            disk_answers.set()
        assert sorted(map(str, answered)) == ["0", "['a']"]
        assert not talk.broker.settling.unsettled
    async with talking(tmp_path, durability=Durability.FSYNC) as talk:
        assert talk.broker.topics.get("a") is not None


async def test_a_change_that_the_disk_refuses_is_refused_and_others_are_still_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(job: SyncJob) -> None:
        job.release()
        raise StorageFailed("the disk is gone")

    async with talking(tmp_path, durability=Durability.FSYNC) as talk:
        monkeypatch.setattr(SyncJob, "run", broken)
        assert await create(talk, "a") == ErrorCode.KAFKA_STORAGE_ERROR
        assert await create(talk, "b") == ErrorCode.KAFKA_STORAGE_ERROR
        assert talk.broker.topics.get("b") is None
        assert (await talk.ask(MetadataRequest(topics=[]), 12, MetadataResponse)).error_code == 0
        monkeypatch.undo()


async def test_nothing_is_acknowledged_in_a_topic_that_a_power_cut_may_take_away(tmp_path: Path) -> None:
    """Its own files are synced, but without the topic nobody would find them."""
    disk = RefusingDisk()
    with brokers_on(disk):
        async with talking(tmp_path, durability=Durability.FSYNC) as talk:
            assert await create(talk, "a") == 0
            assert await create(talk, "grows") == 0
            assert (await talk.produce("grows", b"x")).error_code == 0
            disk.refuse("sync", path="*@journal*", error=errno.EIO)
            grows = talk.broker.topics.get("grows")
            assert grows is not None
            talk.broker.topics.add_partitions(grows, 2)
            assert await create(talk, "lost") == ErrorCode.KAFKA_STORAGE_ERROR
            disk.heal()
            assert talk.broker.topics.get("lost") is not None
            assert (await talk.produce("lost", b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            for partition in (0, 1):
                answer = await talk.produce("grows", b"x", partition=partition)
                assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await talk.produce("a", b"x")).error_code == 0


@pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])
async def test_a_journal_that_cannot_be_opened_for_a_sync_is_synced_later(
    tmp_path: Path, durability: Durability
) -> None:
    """Descriptors may run out for a while. That is no failed sync, and it does not end the broker."""
    disk = RefusingDisk()
    with brokers_on(disk):
        async with talking(tmp_path, durability=durability) as talk:
            await talk.broker.settling.settled()
            talk.broker.topics.create("a", 1, {})
            disk.evict()
            disk.refuse("open", path="*@journal*", error=errno.EMFILE)
            with pytest.raises(StorageFailed, match="to sync it"):
                await talk.broker.settling.settled()
            if durability is Durability.FSYNC:
                assert (await talk.produce("a", b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            disk.heal()
            await talk.broker.settling.settled()
            assert await create(talk, "b") == 0
            assert (await talk.produce("a", b"x")).error_code == 0
        assert talk.broker.stopped_cleanly


async def test_where_nobody_waits_the_journal_is_synced_a_moment_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = threading.Event()
    whole = SyncJob.run

    def told(job: SyncJob) -> None:
        whole(job)
        synced.set()

    monkeypatch.setattr(SyncJob, "run", told)
    clock = ManualClock()
    async with talking(tmp_path, clock, durability=Durability.OS) as talk:
        clock.advance(AT_LEISURE)
        await talk.broker.settling.settled()
        synced.clear()
        assert await create(talk, "a") == 0
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert not synced.is_set()
        assert not talk.broker.settling.unsettled
        clock.advance(AT_LEISURE)
        assert await anyio.to_thread.run_sync(synced.wait, 20)


async def test_records_are_not_synced_before_the_topic_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    whole = RealFile.sync

    def told(file: RealFile) -> None:
        whole(file)
        order.append(file.path.parent.name)

    monkeypatch.setattr(RealFile, "sync", told)
    clock = ManualClock()
    async with talking(tmp_path, clock, durability=Durability.OS) as talk:
        talk.broker.topics.create("a", 1, {"segment.bytes": "200"})
        for _ in range(3):
            assert (await talk.produce("a", b"x" * 100)).error_code == 0
        talk.broker.upkeep.tick()
        with anyio.fail_after(20):
            while "a-0" not in order:
                await anyio.sleep(0)
        assert order.index("@journal") < order.index("a-0")
