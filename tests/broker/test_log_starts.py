"""DeleteRecords on a disk that refuses: the new start of a log is on disk before it counts, or nothing has happened."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from broker_lite.config.start import Durability, TopicAtStart
from broker_lite.errors import ErrorCode
from broker_lite.log.disk import RealDisk
from broker_lite.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker_lite.wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tests.crash.refusing_disk import RefusingDisk, brokers_on
from tests.support.talk import Talk, talking

TOPICS = [TopicAtStart("t", 2, {"internal.segment.bytes": "150", "file.delete.delay.ms": "0"})]
LOG_STARTS = "*log-start-offset-checkpoint*"

both = pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])
REFUSED = [("write_atomic", "*"), ("replace", LOG_STARTS)]
REFUSED_SYNC = [("sync", LOG_STARTS), ("sync_dir", "*")]


@pytest.fixture
def disk() -> Iterator[RefusingDisk]:
    disk = RefusingDisk()
    with brokers_on(disk):
        yield disk


async def delete(talk: Talk, offset: int, partition: int = 0) -> tuple[int, int]:
    """The low watermark and the error."""
    wanted = [DeleteRecordsPartition(partition_index=partition, offset=offset)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=wanted)], timeout_ms=1000)
    told = (await talk.ask(request, 2, DeleteRecordsResponse)).topics[0].partitions[0]
    return told.low_watermark, told.error_code


async def write(talk: Talk, count: int = 10, partition: int = 0) -> None:
    for number in range(count):
        assert (await talk.produce("t", b"value %d" % number, partition=partition)).error_code == 0


def start_of(talk: Talk, partition: int = 0) -> int:
    return talk.broker.topics.partition("t", partition).offsets.start


async def start_after_a_crash(disk: RefusingDisk, root: Path, target: Path, durability: Durability) -> int:
    keep = (1, 1) if durability is Durability.OS else (0, 1)
    disk.crash_copy(root, target, keep=keep)
    with brokers_on(RealDisk()):
        async with talking(target, durability=durability) as talk:
            return start_of(talk)


@pytest.mark.parametrize(
    ("durability", "kind", "path"),
    [*((Durability.OS, *one) for one in REFUSED), *((Durability.FSYNC, *one) for one in REFUSED + REFUSED_SYNC)],
)
async def test_a_deletion_that_is_refused_moves_nothing(
    tmp_path: Path, disk: RefusingDisk, durability: Durability, kind: str, path: str
) -> None:
    async with talking(tmp_path / "a", durability=durability, topics=TOPICS) as talk:
        await write(talk)
        assert await delete(talk, 3) == (3, 0)
        disk.refuse(kind, path=path, error=errno.EIO)
        assert await delete(talk, 7) == (-1, ErrorCode.KAFKA_STORAGE_ERROR)
        assert start_of(talk) == 3
        assert await start_after_a_crash(disk, tmp_path / "a", tmp_path / "b", durability) == 3
        disk.heal()
        assert await delete(talk, 7) == (7, 0)
        assert await start_after_a_crash(disk, tmp_path / "a", tmp_path / "c", durability) == 7


@both
async def test_a_deletion_that_is_written_counts_though_its_files_cannot_be_removed(
    tmp_path: Path, disk: RefusingDisk, durability: Durability
) -> None:
    async with talking(tmp_path / "a", durability=durability, topics=TOPICS) as talk:
        await write(talk)
        disk.refuse("remove", path="*/t-0/*")
        assert await delete(talk, 7) == (7, 0)
        assert talk.broker.topics.partition("t", 0).log.segments[0].base == 0
        assert await start_after_a_crash(disk, tmp_path / "a", tmp_path / "b", durability) == 7
        disk.heal()
        talk.broker.upkeep.tick()
        assert talk.broker.topics.partition("t", 0).log.segments[0].base > 0


class SlowDisk(RefusingDisk):
    """Holds up whoever writes log starts, until told to let go."""

    def __init__(self) -> None:
        super().__init__()
        self.hold = False
        self.waiting = threading.Event()
        self.go_on = threading.Event()

    def write_atomic(self, path: Path, data: bytes | bytearray | memoryview, *, sync: bool) -> None:
        if self.hold and "log-start" in path.name:
            self.waiting.set()
            assert self.go_on.wait(20)
        super().write_atomic(path, data, sync=sync)


async def held(disk: SlowDisk) -> None:
    with anyio.fail_after(10):
        while not disk.waiting.is_set():
            await anyio.sleep(0.001)


@both
async def test_while_a_start_is_written_others_are_served_and_it_is_right_afterwards(
    tmp_path: Path, durability: Durability
) -> None:
    disk = SlowDisk()
    answers: dict[str, tuple[int, int]] = {}

    async def ask(name: str, offset: int, partition: int = 0) -> None:
        answers[name] = await delete(talk, offset, partition)

    with brokers_on(disk):
        async with talking(tmp_path / "a", durability=durability, topics=TOPICS) as talk:
            await write(talk)
            await write(talk, partition=1)
            disk.hold = True
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, "first", 4)
                await held(disk)
                tasks.start_soon(ask, "lower", 2)
                tasks.start_soon(ask, "other", 6, 1)
                assert (await talk.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)).error_code == 0
                await write(talk, 1)
                talk.broker.upkeep.tick()  # must not write the old starts over the new ones
                assert start_of(talk) == 0
                disk.hold = False
                disk.go_on.set()
            assert answers == {"first": (4, 0), "lower": (4, 0), "other": (6, 0)}
            assert await start_after_a_crash(disk, tmp_path / "a", tmp_path / "b", durability) == 4


@both
async def test_a_topic_that_is_deleted_meanwhile_leaves_no_start_to_the_next_of_its_name(
    tmp_path: Path, durability: Durability
) -> None:
    disk = SlowDisk()
    answers = []

    async def ask() -> None:
        answers.append(await delete(talk, 10))

    with brokers_on(disk):
        async with talking(tmp_path / "a", durability=durability, topics=TOPICS) as talk:
            await write(talk)
            disk.hold = True
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                await held(disk)
                talk.broker.delete_topics([topic for topic in talk.broker.topics if topic.name == "t"])
                talk.broker.topics.create("t", 2, {})
                disk.hold = False
                disk.go_on.set()
            assert answers == [(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
            await write(talk, 3)
            with anyio.fail_after(10):
                while talk.broker.topics.deleted:
                    await anyio.sleep(0.001)
            assert await start_after_a_crash(disk, tmp_path / "a", tmp_path / "b", durability) == 0


@both
async def test_a_new_topic_does_not_start_where_the_old_one_of_its_name_did(
    tmp_path: Path, disk: RefusingDisk, durability: Durability
) -> None:
    async with talking(tmp_path / "a", durability=durability, topics=TOPICS) as talk:
        await write(talk)
        assert await delete(talk, 10) == (10, 0)
        talk.broker.delete_topics([topic for topic in talk.broker.topics if topic.name == "t"])
        with anyio.fail_after(10):
            while talk.broker.topics.deleted:
                await anyio.sleep(0.001)
        talk.broker.topics.create("t", 2, {})
        await write(talk, 3)
        disk.crash_copy(tmp_path / "a", tmp_path / "b")
    with brokers_on(RealDisk()):
        async with talking(tmp_path / "b", durability=durability) as talk:
            offsets = talk.broker.topics.partition("t", 0).offsets
            assert (offsets.start, offsets.end) == (0, 3)
