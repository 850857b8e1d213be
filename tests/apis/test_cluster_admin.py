"""Records deleted, folders described, leaders elected, partitions moved, quorums and features: one story each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_lite.config.start import Durability, TopicAtStart
from broker_lite.errors import ErrorCode
from broker_lite.ids import parse_topic_id
from broker_lite.log import checkpoints
from broker_lite.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker_lite.wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from broker_lite.wire.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from broker_lite.wire.messages.k35_describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from broker_lite.wire.messages.k43_elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from broker_lite.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from broker_lite.wire.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from broker_lite.wire.messages.k55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    TopicData,
)
from broker_lite.wire.messages.k57_update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.support.talk import Talk, talking

UP, DOWN, UNSAFE = 1, 2, 3


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path, topics=[TopicAtStart("t", 2)]) as talk:
        yield talk


# ---- DeleteRecords


async def delete(talk: Talk, topic: str, *parts: tuple[int, int]) -> list[tuple[int, int, int]]:
    wanted = [DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in parts]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=wanted)], timeout_ms=1000)
    (told,) = (await talk.ask(request, 2, DeleteRecordsResponse)).topics
    return [(part.partition_index, part.low_watermark, part.error_code) for part in told.partitions]


async def test_deleted_records_cannot_be_read_and_the_rest_can(talk: Talk) -> None:
    for value in (b"a", b"b", b"c"):
        await talk.produce("t", value)
    assert await delete(talk, "t", (0, 2)) == [(0, 2, 0)]
    gone = (await talk.fetch("t", 1)).responses[0].partitions[0]
    assert gone.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    kept = (await talk.fetch("t", 2)).responses[0].partitions[0]
    assert (kept.error_code, kept.log_start_offset) == (0, 2)
    assert await delete(talk, "t", (0, 1)) == [(0, 2, 0)]
    assert await delete(talk, "t", (0, -1)) == [(0, 3, 0)]


async def test_deleted_records_stay_deleted_when_the_power_goes_after_the_answer(tmp_path: Path) -> None:
    async with talking(tmp_path / "a", durability=Durability.OS, topics=[TopicAtStart("t")]) as talk:
        for value in (b"a", b"b", b"c"):
            await talk.produce("t", value)
        await delete(talk, "t", (0, 2))
        (tmp_path / "b").mkdir()
        for name in (tmp_path / "a").rglob("*"):
            copy = tmp_path / "b" / name.relative_to(tmp_path / "a")
            if name.is_dir():
                copy.mkdir()
            elif name.name != ".lock":
                copy.write_bytes(name.read_bytes())
    async with talking(tmp_path / "b", durability=Durability.OS) as talk:
        assert talk.broker.topics.partition("t", 0).offsets.start == 2


async def test_what_cannot_be_deleted_is_refused_part_by_part(talk: Talk) -> None:
    await talk.produce("t", b"a")
    talk.broker.topics.create("compacted", 1, {"cleanup.policy": "compact"})
    talk.broker.internal_topic("__consumer_offsets")
    above, missing, fine = await delete(talk, "t", (0, 5), (9, 0), (1, 0))
    assert (above[2], missing[2], fine[2]) == (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
    assert await delete(talk, "t", (0, -2)) == [(0, -1, ErrorCode.OFFSET_OUT_OF_RANGE)]
    assert await delete(talk, "compacted", (0, 0)) == [(0, -1, ErrorCode.POLICY_VIOLATION)]
    assert await delete(talk, "__consumer_offsets", (0, 0)) == [(0, -1, ErrorCode.INVALID_TOPIC_EXCEPTION)]


# ---- the data folder


async def test_the_folder_is_described_with_true_sizes(tmp_path: Path) -> None:
    async with talking(tmp_path, durability=Durability.OS, topics=[TopicAtStart("t", 2)]) as talk:
        await talk.produce("t", b"x" * 1000, partition=1)
        (folder,) = (await talk.ask(DescribeLogDirsRequest(topics=None), 5, DescribeLogDirsResponse)).results
        sizes = {part.partition_index: part.partition_size for part in folder.topics[0].partitions}
        assert sizes == {0: 0, 1: (tmp_path / "t-1" / f"{0:020}.log").stat().st_size}
        assert folder.log_dir == str(tmp_path)
        assert 0 < folder.usable_bytes <= folder.total_bytes
        wanted = [DescribableLogDirTopic(topic="t", partitions=[0]), DescribableLogDirTopic(topic="no", partitions=[0])]
        (folder,) = (await talk.ask(DescribeLogDirsRequest(topics=wanted), 1, DescribeLogDirsResponse)).results
        assert [(topic.name, len(topic.partitions)) for topic in folder.topics] == [("t", 1)]


async def test_partitions_can_only_move_to_where_they_are(talk: Talk, tmp_path: Path) -> None:
    async def move(path: Path, topic: str) -> int:
        folder = AlterReplicaLogDir(path=str(path), topics=[AlterReplicaLogDirTopic(name=topic, partitions=[0])])
        response = await talk.ask(AlterReplicaLogDirsRequest(dirs=[folder]), 2, AlterReplicaLogDirsResponse)
        return response.results[0].partitions[0].error_code

    assert await move(tmp_path, "t") == 0
    assert await move(tmp_path, "missing") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await move(tmp_path / "elsewhere", "t") == ErrorCode.LOG_DIR_NOT_FOUND


# ---- leaders and replicas


async def test_no_election_is_needed(talk: Talk) -> None:
    wanted = [TopicPartitions(topic="t", partitions=[0, 9]), TopicPartitions(topic="no", partitions=[0])]
    response = await talk.ask(ElectLeadersRequest(topic_partitions=wanted), 2, ElectLeadersResponse)
    told = {
        (r.topic, p.partition_id): p.error_code for r in response.replica_election_results for p in r.partition_result
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told == {("t", 0): ErrorCode.ELECTION_NOT_NEEDED, ("t", 9): unknown, ("no", 0): unknown}
    everything = await talk.ask(ElectLeadersRequest(topic_partitions=None), 2, ElectLeadersResponse)
    assert (everything.error_code, [one.topic for one in everything.replica_election_results]) == (0, ["t"])
    odd = await talk.ask(ElectLeadersRequest(election_type=5, topic_partitions=wanted), 2, ElectLeadersResponse)
    assert odd.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("topic", "index", "replicas", "code"),
    [
        ("t", 0, [1], 0),
        ("t", 0, [2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("t", 9, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("no", 0, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_a_partition_stays_on_the_only_broker(
    talk: Talk, topic: str, index: int, replicas: list[int] | None, code: int
) -> None:
    wanted = ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
    request = AlterPartitionReassignmentsRequest(topics=[wanted])
    response = await talk.ask(request, 1, AlterPartitionReassignmentsResponse)
    assert response.responses[0].partitions[0].error_code == code
    moving = await talk.ask(ListPartitionReassignmentsRequest(), 0, ListPartitionReassignmentsResponse)
    assert moving.topics == []


# ---- the quorum and features


async def test_a_quorum_of_one(talk: Talk) -> None:
    def asking(topic: str) -> DescribeQuorumRequest:
        return DescribeQuorumRequest(
            topics=[TopicData(topic_name=topic, partitions=[PartitionData(partition_index=0)])]
        )

    response = await talk.ask(asking("__cluster_metadata"), 2, DescribeQuorumResponse)
    quorum = response.topics[0].partitions[0]
    assert (quorum.leader_id, [voter.replica_id for voter in quorum.current_voters]) == (1, [1])
    assert quorum.high_watermark == quorum.current_voters[0].log_end_offset > 0
    assert response.nodes[0].listeners[0].port == 9092
    assert quorum.current_voters[0].replica_directory_id == bytes(16)
    other = await talk.ask(asking("t"), 2, DescribeQuorumResponse)
    assert other.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_voter_is_known_by_its_folder_once_the_quorum_may_change(talk: Talk) -> None:
    assert await update(talk, ("kraft.version", 1, UP)) == (0, "")
    asking = DescribeQuorumRequest(
        topics=[TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])]
    )
    response = await talk.ask(asking, 2, DescribeQuorumResponse)
    written = checkpoints.read_meta_properties(talk.broker.folder.disk, talk.broker.folder.path)
    assert written is not None
    (voter,) = response.topics[0].partitions[0].current_voters
    assert voter.replica_directory_id == parse_topic_id(written["directory.id"])


async def update(talk: Talk, *updates: tuple[str, int, int], only: bool = False, version: int = 2) -> tuple[int, str]:
    wanted = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=how) for name, level, how in updates]
    request = UpdateFeaturesRequest(feature_updates=wanted, validate_only=only)
    response = await talk.ask(request, version, UpdateFeaturesResponse)
    return response.error_code, response.error_message or ""


async def levels(talk: Talk) -> tuple[dict[str, int], int]:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    told = await talk.ask(request, 4, ApiVersionsResponse)
    return {one.name: one.max_version_level for one in told.finalized_features}, told.finalized_features_epoch


async def test_a_feature_goes_down_and_up_and_survives_a_restart(tmp_path: Path) -> None:
    async with talking(tmp_path, durability=Durability.OS) as talk:
        before, epoch = await levels(talk)
        assert before["transaction.version"] == 2
        assert await update(talk, ("transaction.version", 1, DOWN)) == (0, "")
        after, risen = await levels(talk)
        assert (after["transaction.version"], risen) == (1, epoch + 1)
    async with talking(tmp_path, durability=Durability.OS) as talk:
        assert await levels(talk) == (after, risen)
        assert await update(talk, ("transaction.version", 0, DOWN), only=True, version=1) == (0, "")
        assert await update(talk, ("transaction.version", 2, UP), version=1) == (0, "")
        assert (await levels(talk))[0] == before


@pytest.mark.parametrize(
    ("name", "level", "how", "text"),
    [
        ("nope", 1, UP, "Local controller 1 does not support this feature."),
        ("transaction.version", 9, UP, "Local controller 1 only supports versions 0-2"),
        ("transaction.version", 1, UP, "Can't downgrade the version of this feature"),
        ("transaction.version", -1, DOWN, "A feature version cannot be less than 0."),
        ("transaction.version", 2, 9, "The controller does not support the given upgrade type."),
        ("metadata.version", 20, DOWN, "Refusing to perform the requested downgrade"),
        ("metadata.version", 20, UNSAFE, "Unsafe metadata downgrade is not supported"),
    ],
)
async def test_a_wrong_update_changes_nothing(talk: Talk, name: str, level: int, how: int, text: str) -> None:
    before = await levels(talk)
    code, why = await update(talk, ("group.version", 0, DOWN), (name, level, how))
    assert code == ErrorCode.INVALID_UPDATE_VERSION
    assert text in why
    assert await levels(talk) == before
