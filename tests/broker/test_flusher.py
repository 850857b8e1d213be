"""Syncs that somebody waits for."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from broker_lite.clock import ManualClock
from broker_lite.config.start import Durability
from broker_lite.coordinator.txns.state import State
from broker_lite.ids import TRANSACTION_STATE_TOPIC
from tests.broker.test_transactions import begun, state_of, until
from tests.crash.topic_disk import TopicDisk
from tests.support.talk import talking


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
