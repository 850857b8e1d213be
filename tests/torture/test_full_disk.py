"""A file system of 16 MiB runs full: producers are told, nothing acknowledged is lost, and it heals by itself."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from broker_lite.clock import ManualClock
from broker_lite.config.start import Durability, TopicAtStart
from broker_lite.errors import ErrorCode
from broker_lite.ids import Offset
from broker_lite.records.record import records_of
from tests.support.talk import NOW, Talk, talking
from tests.torture.power import Rig

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]
TOPICS = [TopicAtStart("t", 2, {"segment.bytes": "1000000"})]


def all_values(talk: Talk, partition: int) -> list[bytes | None]:
    log = talk.broker.topics.partition("t", partition).log
    return [record.value for batch in log.batches(Offset(0)) for record in records_of(batch)]


@pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])
async def test_a_full_disk_heals(tmp_path: Path, durability: Durability) -> None:
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        pytest.skip("needs root and mkfs.ext4")
    try:
        rig = Rig(tmp_path, "ext4", 16)
    except OSError as error:
        pytest.skip(f"no loop-mounted ext4 here: {error}")
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
