"""A file system of 16 MiB runs full: producers are told, nothing acknowledged is lost, and it heals by itself."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from pathlib import Path

import pytest

from broker_lite.client.client import LATEST, Client
from broker_lite.clock import ManualClock
from broker_lite.config.start import Durability, TopicAtStart
from broker_lite.errors import BrokerError, ErrorCode
from broker_lite.ids import Offset
from broker_lite.records.build import NewRecord
from broker_lite.records.record import records_of
from tests.support.broker import BrokerFailed, BrokerProcess
from tests.support.talk import NOW, Talk, talking
from tests.torture.power import Rig

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]
TOPICS = [TopicAtStart("t", 2, {"segment.bytes": "1000000"})]


def all_values(talk: Talk, partition: int) -> list[bytes | None]:
    log = talk.broker.topics.partition("t", partition).log
    return [record.value for batch in log.batches(Offset(0)) for record in records_of(batch)]


def small_disk(folder: Path) -> Rig:
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        pytest.skip("needs root and mkfs.ext4")
    try:
        return Rig(folder, "ext4", 16)
    except OSError as error:
        pytest.skip(f"no loop-mounted ext4 here: {error}")


@pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])
async def test_a_full_disk_heals(tmp_path: Path, durability: Durability) -> None:
    rig = small_disk(tmp_path)
    chance = random.Random(5)
    try:
        ballast = rig.mount_point / "ballast"
        ballast.write_bytes(bytes(5 << 20))
        kept: list[list[bytes]] = [[], []]
        async with talking(rig.mount_point / "data", ManualClock(NOW), durability=durability, topics=TOPICS) as talk:

            async def produce(partition: int) -> int:
                value = chance.randbytes(60_000)
                answer = await talk.produce("t", value, partition=partition)
                if answer.error_code == 0:
                    assert answer.base_offset == len(kept[partition])
                    kept[partition].append(value)
                return answer.error_code

            codes = [await produce(number % 2) for number in range(300)]
            assert set(codes) == {0, ErrorCode.KAFKA_STORAGE_ERROR}
            assert codes[-1] == ErrorCode.KAFKA_STORAGE_ERROR
            talk.broker.upkeep.tick()
            assert [all_values(talk, 0), all_values(talk, 1)] == kept
            ballast.unlink()
            assert [await produce(number % 2) for number in range(20)] == [0] * 20
            assert [all_values(talk, 0), all_values(talk, 1)] == kept
        async with talking(rig.mount_point / "data", ManualClock(NOW), durability=durability) as talk:
            assert [all_values(talk, 0), all_values(talk, 1)] == kept
    finally:
        rig.unmount()


async def produce_until_full(broker: BrokerProcess, chance: random.Random) -> list[bytes]:
    """What was acknowledged."""
    kept: list[bytes] = []
    async with await Client.connect(broker.bootstrap) as client:
        for size in (60_000, 5_000, 500, 50):
            with contextlib.suppress(BrokerError):
                while True:
                    value = chance.randbytes(size)
                    await client.produce("t", [NewRecord(None, value)], partition=0)
                    kept.append(value)
    return kept


async def read_everything(broker: BrokerProcess) -> list[bytes | None]:
    async with await Client.connect(broker.bootstrap) as client:
        end = (await client.list_offsets("t", LATEST))[0].offset
        return [one.value async for _, one in client.consume("t", {0: 0}, until={0: end})]


def fill_up(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))


@pytest.mark.parametrize("durability", ["os", "fsync"])
async def test_a_stop_and_a_start_on_a_full_disk_say_why_in_one_line_and_lose_nothing(
    tmp_path: Path, durability: str
) -> None:
    rig = small_disk(tmp_path)
    try:
        ballast = rig.mount_point / "ballast"
        ballast.write_bytes(bytes(5 << 20))
        broker = BrokerProcess(
            tmp_path / "broker", ["--durability", durability, "--topic", "t:1,segment.bytes=1000000"]
        )
        broker.data = rig.mount_point / "data"
        with broker:
            kept = await produce_until_full(broker, random.Random(5))
            fill_up(rig.mount_point / "more")
            assert broker.process is not None
            broker.process.terminate()
            assert broker.process.wait(20) in (0, 1)
            for _ in range(2):
                try:
                    broker.start()
                except BrokerFailed:
                    assert broker.process.wait() == 1
                    assert broker.stderr.splitlines()[-1].startswith("broker-lite: the data folder ")
                else:
                    broker.kill()
            assert "Traceback" not in broker.stderr
            ballast.unlink()
            (rig.mount_point / "more").unlink()
            broker.start()
            assert await read_everything(broker) == kept
            broker.stop()
    finally:
        rig.unmount()
