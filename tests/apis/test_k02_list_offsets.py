from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_lite.errors import ErrorCode
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.compression import Codec
from broker_lite.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.support.talk import NOW, Talk, talking


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path) as talk:
        talk.broker.topics.create("t", 1, {})
        yield talk


async def ask(
    talk: Talk, timestamp: int, version: int = 7, topic: str = "t", times: int = 1
) -> ListOffsetsPartitionResponse:
    asked = [ListOffsetsPartition(partition_index=0, timestamp=timestamp) for _ in range(times)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])
    return (await talk.ask(request, version, ListOffsetsResponse)).topics[0].partitions[0]


async def write_at(talk: Talk, *seconds: int, codec: Codec = Codec.NONE) -> None:
    records = [NewRecord(key=None, value=b"x", timestamp=NOW + 1000 * second) for second in seconds]
    answer = await talk.produce("t", batch=build_batch(records, timestamp=NOW, codec=codec))
    assert answer.error_code == 0


@pytest.mark.parametrize("version", range(1, 12))
async def test_the_ends_of_the_log(talk: Talk, version: int) -> None:
    await write_at(talk, 0, 1)
    latest, earliest = await ask(talk, -1, version), await ask(talk, -2, version)
    assert (latest.error_code, latest.offset, latest.timestamp) == (0, 2, -1)
    assert (earliest.error_code, earliest.offset, earliest.timestamp) == (0, 0, -1)
    assert latest.leader_epoch == (0 if version >= 4 else -1)


@pytest.mark.parametrize("codec", Codec)
async def test_the_first_record_that_is_not_older_is_found_inside_a_batch(talk: Talk, codec: Codec) -> None:
    await write_at(talk, 0, 10, 20, codec=codec)
    await write_at(talk, 30, codec=codec)
    for second, offset, found in ((-5, 0, 0), (0, 0, 0), (1, 1, 10), (20, 2, 20), (21, 3, 30)):
        answer = await ask(talk, NOW + 1000 * second)
        assert (answer.offset, answer.timestamp) == (offset, NOW + 1000 * found)
    late = await ask(talk, NOW + 31_000)
    assert (late.error_code, late.offset, late.timestamp) == (0, -1, -1)


@pytest.mark.parametrize("codec", Codec)
async def test_the_record_with_the_largest_timestamp(talk: Talk, codec: Codec) -> None:
    assert (await ask(talk, -3)).offset == -1
    await write_at(talk, 0, 50, 20, codec=codec)
    await write_at(talk, 30, codec=codec)
    answer = await ask(talk, -3)
    assert (answer.offset, answer.timestamp) == (1, NOW + 50_000)


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 99)])
async def test_special_timestamps_are_known_from_some_version_on(talk: Talk, timestamp: int, since: int) -> None:
    for version in range(1, 12):
        code = (await ask(talk, timestamp, version)).error_code
        assert code == (0 if version >= since else ErrorCode.UNSUPPORTED_VERSION), version


async def test_without_remote_storage_there_is_nothing_in_it(talk: Talk) -> None:
    for timestamp in (-5, -6):
        answer = await ask(talk, timestamp, 11)
        assert (answer.offset, answer.leader_epoch) == (-1, -1)


async def test_version_0_lists_where_segments_start(talk: Talk) -> None:
    await write_at(talk, 0, 1)
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1, max_num_offsets=10)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[asked])])
    answer = (await talk.ask(request, 0, ListOffsetsResponse)).topics[0].partitions[0]
    assert answer.old_style_offsets == [2, 0]
    asked.timestamp = -2
    answer = (await talk.ask(request, 0, ListOffsetsResponse)).topics[0].partitions[0]
    assert answer.old_style_offsets == [0]


async def test_a_partition_that_is_asked_for_twice_and_one_that_is_not_there(talk: Talk) -> None:
    assert (await ask(talk, -1, times=2)).error_code == ErrorCode.INVALID_REQUEST
    assert (await ask(talk, -1, topic="nope")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
