"""Deleted topics on a disk that refuses to rename and to remove: their names are free, and in the end they are gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from broker_lite.broker.removal import AGAIN_AFTER
from broker_lite.clock import ManualClock
from broker_lite.config.start import Durability, TopicAtStart
from broker_lite.errors import ErrorCode
from broker_lite.log.disk import RealDisk
from tests.crash.refusing_disk import RefusingDisk, brokers_on
from tests.support.talk import NOW, Talk, talking

TOPICS = [TopicAtStart("t", 1, {})]
both = pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])


@pytest.fixture
def disk() -> Iterator[RefusingDisk]:
    disk = RefusingDisk()
    with brokers_on(disk):
        yield disk


def delete(talk: Talk) -> None:
    talk.broker.delete_topics([topic for topic in talk.broker.topics if topic.name == "t"])


async def removed(talk: Talk, clock: ManualClock) -> None:
    with anyio.fail_after(10):
        while talk.broker.topics.deleted:
            await anyio.sleep(0.001)
            clock.advance(AGAIN_AFTER)


async def refused(disk: RefusingDisk) -> None:
    before = disk.refused_calls
    with anyio.fail_after(10):
        while disk.refused_calls == before:
            await anyio.sleep(0.001)


@both
@pytest.mark.parametrize("kind", ["rename", "remove_tree", "write_atomic"])
async def test_what_the_disk_refuses_to_remove_is_tried_again(
    tmp_path: Path, disk: RefusingDisk, durability: Durability, kind: str
) -> None:
    clock = ManualClock(NOW)
    async with talking(tmp_path, clock, durability=durability, topics=TOPICS) as talk:
        await talk.produce("t", b"old")
        talk.broker.upkeep.tick()  # so that checkpoints name it
        disk.refuse(kind)
        delete(talk)
        await refused(disk)
        talk.broker.topics.create("t", 1, {})
        if kind == "rename":
            assert (await talk.produce("t", b"new")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        disk.heal()
        assert (await talk.produce("t", b"new")).error_code == 0
        await removed(talk, clock)
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith("t-0")] == ["t-0"]
        assert talk.broker.topics.partition("t", 0).offsets.end == 1


@both
@pytest.mark.parametrize("place", ["*partition.metadata*", "*leader-epoch*"])
async def test_a_topic_whose_folder_was_half_made_leaves_its_name_to_the_next(
    tmp_path: Path, disk: RefusingDisk, durability: Durability, place: str
) -> None:
    clock = ManualClock(NOW)
    async with talking(tmp_path, clock, durability=durability, topics=TOPICS) as talk:
        disk.refuse("write_atomic", path=place)
        assert (await talk.produce("t", b"never")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        disk.heal()
        delete(talk)
        talk.broker.topics.create("t", 1, {})
        assert (await talk.produce("t", b"new")).error_code == 0
        await removed(talk, clock)
    async with talking(tmp_path, durability=durability) as talk:
        assert talk.broker.topics.partition("t", 0).offsets.end == 1


@both
async def test_a_start_does_not_take_the_folder_of_a_new_topic_for_that_of_a_deleted_one(
    tmp_path: Path, disk: RefusingDisk, durability: Durability
) -> None:
    """The old one has its new name but could not be removed, the new one has no name in it yet."""
    async with talking(tmp_path / "a", durability=durability, topics=TOPICS) as talk:
        await talk.produce("t", b"old")
        disk.refuse("remove_tree")
        delete(talk)
        await refused(disk)
        talk.broker.topics.create("t", 1, {})
        disk.refuse("write_atomic", path="*partition.metadata*")
        assert (await talk.produce("t", b"never")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        disk.crash_copy(tmp_path / "a", tmp_path / "b")
    with brokers_on(RealDisk()):
        async with talking(tmp_path / "b", durability=durability) as talk:
            assert talk.broker.topics.partition("t", 0).offsets.end == 0
            assert (await talk.produce("t", b"new")).error_code == 0


async def test_with_fsync_a_folder_goes_only_when_the_deletion_is_on_disk(tmp_path: Path, disk: RefusingDisk) -> None:
    async with talking(tmp_path / "a", durability=Durability.FSYNC, topics=TOPICS) as talk:
        assert (await talk.produce("t", b"kept")).error_code == 0
        delete(talk)
        disk.crash_copy(tmp_path / "a", tmp_path / "b", keep=(0, 1))
    with brokers_on(RealDisk()):
        async with talking(tmp_path / "b", durability=Durability.FSYNC) as talk:
            assert talk.broker.topics.partition("t", 0).offsets.end == 1
