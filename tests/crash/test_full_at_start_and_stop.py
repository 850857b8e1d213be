"""A disk that is full when the broker starts or stops: it says so in one line, and nothing acknowledged is lost."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest
import structlog.testing

from broker_lite.config.start import Durability, TopicAtStart
from broker_lite.errors import StartRefused
from broker_lite.ids import Offset
from broker_lite.records.record import records_of
from tests.crash.faulty_disk import FaultyDisk
from tests.crash.refusing_disk import RefusingDisk, brokers_on
from tests.crash.sampling import points
from tests.support.talk import Talk, talking

TOPICS = [TopicAtStart("t", 2, {"internal.segment.bytes": "300"}), TopicAtStart("new", 1, {})]
VALUES = [b"value %d" % number for number in range(12)]
both = pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])


async def write(talk: Talk) -> None:
    for value in VALUES:
        assert (await talk.produce("t", value)).error_code == 0


async def check(root: Path, durability: Durability) -> None:
    async with talking(root, durability=durability) as talk:
        log = talk.broker.topics.partition("t", 0).log
        assert [record.value for batch in log.batches(Offset(0)) for record in records_of(batch)] == VALUES
        assert {topic.name for topic in talk.broker.topics} == {"t", "new"}
        assert (await talk.produce("t", b"after")).error_code == 0
        assert (await talk.produce("new", b"after")).error_code == 0


@both
@pytest.mark.parametrize("kind", ["", "write_atomic", "sync", "sync_dir", "replace", "append_bytes"])
async def test_a_stop_on_a_disk_that_refuses_loses_nothing(tmp_path: Path, durability: Durability, kind: str) -> None:
    disk = RefusingDisk()
    with brokers_on(disk), structlog.testing.capture_logs() as events:
        async with talking(tmp_path, durability=durability, topics=TOPICS) as talk:
            await write(talk)
            if kind:
                disk.refuse(kind)
            else:
                disk.fill(10)
        refused = disk.refused_calls > 0
        assert talk.broker.stopped_cleanly is not refused
        assert not refused or any(event["log_level"] == "error" for event in events)
    disk.abandon()
    await check(tmp_path, durability)


@both
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
async def test_a_start_on_a_disk_that_refuses_loses_nothing(
    tmp_path: Path, durability: Durability, clean: bool
) -> None:
    disk = RefusingDisk()
    with brokers_on(disk):
        async with talking(tmp_path / "stopped", durability=durability, topics=TOPICS) as talk:
            await write(talk)
            disk.crash_copy(tmp_path / "stopped", tmp_path / "killed")
    origin = tmp_path / ("stopped" if clean else "killed")
    counting = FaultyDisk()
    with brokers_on(counting):
        async with talking(shutil.copytree(origin, tmp_path / "all"), durability=durability):
            calls = counting.calls
    for n in points(calls, 12):
        root = shutil.copytree(origin, tmp_path / str(n))
        full = FaultyDisk(refuse_at=n, lasting=True, error=errno.ENOSPC)
        with brokers_on(full):
            try:
                async with talking(root, durability=durability):
                    pass
            except* StartRefused as refused:
                told = refused.exceptions[0]
                while isinstance(told, BaseExceptionGroup):
                    told = told.exceptions[0]
                assert "\n" not in str(told)
        full.abandon()
        await check(root, durability)
