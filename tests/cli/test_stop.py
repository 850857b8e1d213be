"""Stopping: in time, under load, and with everything kept that was acknowledged."""

from __future__ import annotations

import anyio
import pytest

from broker_lite.client.client import EARLIEST, LATEST, Client
from broker_lite.client.connection import Unreachable
from broker_lite.records.build import NewRecord
from tests.conftest import BrokerFactory
from tests.support.broker import STOP_WITHIN, BrokerProcess

WRITERS = 8
READERS = 8


async def write(broker: BrokerProcess, number: int, acknowledged: list[bytes], enough: anyio.Event) -> None:
    """Write until the broker is gone; remember what it acknowledged."""
    try:
        async with await Client.connect(broker.bootstrap, timeout=5) as client:
            for turn in range(1_000_000):
                value = b"%d-%d" % (number, turn)
                await client.produce("load", [NewRecord(None, value + b" " * 200)], partition=number % 4)
                acknowledged.append(value)
                if len(acknowledged) > 300:
                    enough.set()
    except Unreachable:
        return


async def wait_for_more(broker: BrokerProcess, partition: int) -> None:
    """Be a reader who is parked at an end that never moves."""
    try:
        async with await Client.connect(broker.bootstrap, timeout=5) as client:
            async for _ in client.consume("quiet", {partition: 0}, max_wait_ms=30_000):
                pass
    except Unreachable:
        return


@pytest.mark.parametrize("durability", ["os", "fsync"])
async def test_sigterm_under_load_is_a_clean_stop_and_loses_nothing(
    broker_process: BrokerFactory, durability: str
) -> None:
    broker = broker_process("--topic", "load:4", "--topic", "quiet:4", "--durability", durability)
    acknowledged: list[bytes] = []
    enough = anyio.Event()
    async with anyio.create_task_group() as tasks:
        for number in range(WRITERS):
            tasks.start_soon(write, broker, number, acknowledged, enough)
        for number in range(READERS):
            tasks.start_soon(wait_for_more, broker, number % 4)
        await enough.wait()
        await anyio.to_thread.run_sync(broker.stop, STOP_WITHIN)
    assert (broker.data / ".kafka_cleanshutdown").exists()

    broker.start()
    async with await Client.connect(broker.bootstrap) as client:
        starts = {index: found.offset for index, found in (await client.list_offsets("load", EARLIEST)).items()}
        ends = {index: found.offset for index, found in (await client.list_offsets("load", LATEST)).items()}
        kept = {(record.value or b"").strip() async for _, record in client.consume("load", starts, until=ends)}
    assert set(acknowledged) <= kept
