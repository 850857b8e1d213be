"""Syncs that somebody waits for."""

from __future__ import annotations

import errno
from pathlib import Path

import anyio
import pytest

from broker_lite.clock import ManualClock
from broker_lite.config.start import Durability
from broker_lite.coordinator.txns.state import State
from broker_lite.errors import StorageFailed
from broker_lite.ids import TRANSACTION_STATE_TOPIC
from tests.broker.test_transactions import begun, state_of, until
from tests.crash.refusing_disk import RefusingDisk
from tests.crash.topic_disk import TopicDisk
from tests.partition.house import batch
from tests.support.talk import NOW, talking


@pytest.mark.timeout(30)
async def test_a_broker_that_stops_while_it_aborts_a_transaction_comes_to_an_end(tmp_path: Path) -> None:
    """The abort is carried out to its end and waits for syncs, which the stop had taken away: it asked for ever."""
    disk, clock = TopicDisk(), ManualClock()
    stopping = anyio.Event()

    async def release() -> None:
        await stopping.wait()
        await anyio.wait_all_tasks_blocked()
        disk.release(TRANSACTION_STATE_TOPIC)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(release)
        async with talking(tmp_path, clock, durability=Durability.FSYNC, disk=disk) as talk:
            talk.broker.topics.create("t", 2, {})
            await begun(talk, new=False)
            disk.hold(TRANSACTION_STATE_TOPIC)
            clock.advance(61)
            await until(lambda: state_of(talk).is_prepared)
            stopping.set()
    async with talking(tmp_path, clock, durability=Durability.FSYNC) as talk:
        assert state_of(talk) is State.COMPLETE_ABORT


async def test_a_partition_whose_file_cannot_be_opened_for_a_sync_goes_on_later(tmp_path: Path) -> None:
    """Descriptors may run out for a while. Nothing is lost then, so it is no failed sync."""
    disk = RefusingDisk()
    async with talking(tmp_path, durability=Durability.FSYNC, disk=disk) as talk:
        talk.broker.topics.create("t", 1, {})
        assert (await talk.produce("t", b"a")).error_code == 0
        partition = talk.broker.topics.partition("t", 0)
        end = partition.append(batch(b"b", timestamp=NOW), api_version=9, now_ms=NOW).end
        disk.evict()
        disk.refuse("open", path="*t-0/*", error=errno.EMFILE)
        with pytest.raises(StorageFailed, match="to sync it"):
            await talk.broker.flusher.durable(partition, end)
        assert partition.offsets.high == 1
        disk.heal()
        await talk.broker.flusher.durable(partition, end)
        assert partition.offsets.high == 2
        assert (await talk.produce("t", b"c")).error_code == 0
