"""The coordinators' own topics are compacted, and say the same afterwards."""

from __future__ import annotations

from pathlib import Path

from broker_lite.clock import ManualClock
from broker_lite.config.start import Durability
from broker_lite.ids import GROUP_OFFSETS_TOPIC
from broker_lite.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from broker_lite.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from tests.support.talk import NOW, Talk, talking

GROUPS = [f"group {number}" for number in range(4)]


async def commit(talk: Talk, group: str, offset: int) -> None:
    line = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[OffsetCommitRequestTopic(name="t", partitions=[line])],
    )
    response = await talk.ask(request, 8, OffsetCommitResponse)
    assert response.topics[0].partitions[0].error_code == 0


async def committed(talk: Talk, group: str) -> int:
    request = OffsetFetchRequest(group_id=group, topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
    response = await talk.ask(request, 5, OffsetFetchResponse)
    return response.topics[0].partitions[0].committed_offset


async def test_committed_offsets_survive_compaction_and_a_restart(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    settings = {
        "offsets.topic.segment.bytes": "4000",
        "offsets.topic.num.partitions": "1",
        "log.cleaner.min.cleanable.ratio": "0.01",
    }
    async with talking(tmp_path, clock, durability=Durability.OS, settings=settings) as talk:
        talk.broker.topics.create("t", 1, {})
        for number in range(200):
            await commit(talk, GROUPS[number % len(GROUPS)], number)
        log = talk.broker.topics.partition(GROUP_OFFSETS_TOPIC, 0).log
        before = log.size_bytes
        log.flush()
        while await talk.broker.upkeep.cleaner.clean_one():
            pass
        assert log.size_bytes < before / 2
        assert [await committed(talk, group) for group in GROUPS] == [196, 197, 198, 199]
    async with talking(tmp_path, clock, durability=Durability.OS, settings=settings) as talk:
        assert [await committed(talk, group) for group in GROUPS] == [196, 197, 198, 199]
        await commit(talk, GROUPS[0], 500)
    async with talking(tmp_path, clock, durability=Durability.OS, settings=settings) as talk:
        assert [await committed(talk, group) for group in GROUPS] == [500, 197, 198, 199]
