"""A partition whose log is damaged, or whose disk does not answer, as clients see it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker_lite.config.start import Durability, TopicAtStart
from broker_lite.errors import ErrorCode
from broker_lite.log import layout
from broker_lite.log.disk import RealFile
from broker_lite.records.batch import walk
from tests.support.talk import Talk, talking

TOPICS = [TopicAtStart("t", 2, {})]
DAMAGED_AT = 5


async def fetched(talk: Talk, offset: int, partition: int = 0, version: int = 11) -> tuple[int, int]:
    """The error, and how many batches came."""
    (answer,) = (await talk.fetch("t", offset, partition=partition, version=version)).responses[0].partitions
    data = bytes(memoryview(answer.records)) if answer.records is not None else b""  # type: ignore[arg-type]
    return answer.error_code, len(list(walk(data)))


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    async with talking(tmp_path, durability=Durability.OS, topics=TOPICS) as talk:
        for number in range(10):
            for partition in (0, 1):
                assert (await talk.produce("t", b"%d" % number * 50, partition=partition)).error_code == 0
    path = tmp_path / "t-0" / layout.file_name(0, layout.LOG)
    data = bytearray(path.read_bytes())
    data[sum(batch.size for batch in list(walk(bytes(data)))[:DAMAGED_AT]) + 70] ^= 1
    path.write_bytes(data)
    for name in (layout.CLEAN_SHUTDOWN, layout.RECOVERY_POINTS):
        (tmp_path / name).unlink()
    return tmp_path


async def test_it_is_served_up_to_the_damage_and_the_others_whole(folder: Path) -> None:
    damaged = (folder / "t-0" / layout.file_name(0, layout.LOG)).read_bytes()
    async with talking(folder, durability=Durability.OS) as talk:
        assert await fetched(talk, 0) == (0, DAMAGED_AT)
        assert await fetched(talk, DAMAGED_AT) == (ErrorCode.CORRUPT_MESSAGE, 0)
        assert (await talk.produce("t", b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await talk.produce("t", b"x", partition=1)).base_offset == 10
        assert await fetched(talk, 0, partition=1) == (0, 11)
    assert (folder / "t-0" / layout.file_name(0, layout.LOG)).read_bytes() == damaged
    assert (folder / "t-0" / (layout.file_name(0, layout.LOG) + layout.CORRUPT)).read_bytes() == damaged


async def test_it_ends_there_and_goes_on_where_kafkas_way_is_asked_for(folder: Path) -> None:
    settings = {"broker.lite.recover": "kafka"}
    async with talking(folder, durability=Durability.OS, settings=settings) as talk:
        assert await fetched(talk, 0) == (0, DAMAGED_AT)
        assert (await talk.produce("t", b"x")).base_offset == DAMAGED_AT
    assert len(list((folder / "t-0").glob(f"*{layout.TORN}"))) == 1


async def test_a_disk_that_cannot_be_read_is_told_in_words_that_old_clients_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(file: RealFile, position: int, count: int) -> bytes:
        raise OSError(errno.EIO, "the disk does not answer", str(file.path))

    async with talking(tmp_path, durability=Durability.OS, topics=TOPICS) as talk:
        for number in range(100):
            assert (await talk.produce("t", b"%d" % number * 50)).error_code == 0
        with monkeypatch.context() as patched:
            patched.setattr(RealFile, "pread", broken)
            assert await fetched(talk, 3) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
            assert await fetched(talk, 3, version=5) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
            assert (await talk.produce("t", b"still")).error_code == 0
        assert (await fetched(talk, 3))[0] == 0
