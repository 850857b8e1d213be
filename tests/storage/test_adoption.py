"""Folders that are in nobody's journal become topics, once and for good."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.broker.adoption import KAFKA_BLOCK, KEEP_EVERYTHING
from broker_lite.broker.producer_ids import MAX_FOREIGN
from broker_lite.config.start import Durability
from broker_lite.errors import StartRefused
from broker_lite.ids import GROUP_OFFSETS_TOPIC, TopicId, TopicPartition
from broker_lite.log import checkpoints, layout
from broker_lite.log.disk import RealDisk
from broker_lite.log.layout import ProducerEntry
from broker_lite.partition.partition import Partition, PartitionSettings
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.legacy import write_message
from tests.support.talk import NOW, Talk, talking

ORDERS, OFFSETS = TopicId(bytes(range(1, 17))), TopicId(bytes(range(2, 18)))


def partition_folder(
    root: Path, topic: str, index: int, topic_id: TopicId, *values: bytes, producer: int = -1, leader_epoch: int = 7
) -> None:
    partition = Partition.open(
        TopicPartition(topic, index),
        topic_id,
        root / f"{topic}-{index}",
        RealDisk(),
        PartitionSettings(),
        now_ms=NOW,
    )
    partition.lead(leader_epoch)
    for at, value in enumerate(values):
        batch = build_batch(
            [NewRecord(b"k", value)],
            timestamp=NOW,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=at if producer >= 0 else -1,
        )
        partition.append(memoryview(batch), api_version=9, now_ms=NOW)
    partition.close(clean=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """As Kafka leaves it, its controller's log and half deleted folders included."""
    partition_folder(tmp_path, "orders", 0, ORDERS, b"a", b"b", producer=4711)
    partition_folder(tmp_path, "orders", 2, ORDERS, b"c")
    partition_folder(tmp_path, GROUP_OFFSETS_TOPIC, 0, OFFSETS)
    partition_folder(tmp_path, GROUP_OFFSETS_TOPIC, 4, OFFSETS)
    partition_folder(tmp_path, "__cluster_metadata", 0, OFFSETS, b"x")
    for name in ("gone-0.0123456789abcdef0123456789abcdef-delete", "moved-0.00ff-future", "lost-1.00ff-stray"):
        (tmp_path / name).mkdir()
        (tmp_path / name / layout.file_name(0, layout.LOG)).touch()
    (tmp_path / "holiday-photos-2019").mkdir()
    checkpoints.write_meta_properties(
        RealDisk(), tmp_path, {"version": "1", "cluster.id": "kafkas-own", "node.id": "1", "directory.id": "A" * 22}
    )
    checkpoints.mark_clean_shutdown(RealDisk(), tmp_path)
    return tmp_path


async def refusal(root: Path, text: str) -> bool:
    with pytest.raises(ExceptionGroup) as refused:
        async with talking(root, durability=Durability.OS):
            pass
    return refused.group_contains(StartRefused, match=text)


def names(talk: Talk) -> set[str]:
    return {topic.name for topic in talk.broker.topics}


async def test_topics_are_what_their_folders_say(root: Path) -> None:
    async with talking(root, durability=Durability.OS) as talk:
        assert talk.broker.cluster_id == "kafkas-own"
        assert names(talk) == {"orders", GROUP_OFFSETS_TOPIC}
        orders = talk.broker.topics.get("orders")
        assert orders is not None
        assert (orders.id, orders.partition_count, orders.configs) == (ORDERS, 3, KEEP_EVERYTHING)
        offsets = talk.broker.topics.get(GROUP_OFFSETS_TOPIC)
        assert offsets is not None
        assert (offsets.id, offsets.partition_count, offsets.configs["cleanup.policy"]) == (OFFSETS, 5, "compact")
        assert [talk.broker.topics.partition("orders", at).offsets.end for at in range(3)] == [2, 0, 1]
        assert talk.broker.topics.partition("orders", 0).leader_epoch == 8
        assert (await talk.produce("orders", b"d")).base_offset == 2


async def test_producer_ids_start_above_all_that_were_seen_also_after_a_restart(root: Path) -> None:
    for _ in range(2):
        async with talking(root, durability=Durability.OS) as talk:
            assert talk.broker.producer_ids.new() >= 4712 + KAFKA_BLOCK


async def test_an_id_that_only_a_snapshot_knows_counts(root: Path) -> None:
    snapshot = layout.format_snapshot([ProducerEntry(9000, 0, 0, 0, 0, NOW, -1, -1)])
    (root / "orders-2" / layout.file_name(1, layout.SNAPSHOT)).write_bytes(snapshot)
    async with talking(root, durability=Durability.OS) as talk:
        assert talk.broker.producer_ids.new() > 9000 + KAFKA_BLOCK


async def test_a_topic_is_adopted_once_and_stays_deleted(root: Path) -> None:
    async with talking(root, durability=Durability.OS) as talk:
        orders = talk.broker.topics.get("orders")
        assert orders is not None
        talk.broker.delete_topic(orders)
    async with talking(root, durability=Durability.OS) as talk:
        assert names(talk) == {GROUP_OFFSETS_TOPIC}


async def test_what_was_set_for_an_adopted_topic_stays_set(root: Path) -> None:
    async with talking(root, durability=Durability.OS) as talk:
        orders = talk.broker.topics.get("orders")
        assert orders is not None
        talk.broker.topics.configure(orders, {"retention.ms": "1000"})
    async with talking(root, durability=Durability.OS) as talk:
        orders = talk.broker.topics.get("orders")
        assert orders is not None
        assert orders.configs == {"retention.ms": "1000"}


async def test_folders_of_two_topics_of_one_name_are_refused(root: Path) -> None:
    partition_folder(root, "orders", 1, OFFSETS)
    assert await refusal(root, r"orders belong to two topics .* \(orders-1\)")


async def test_a_folder_from_before_topics_had_ids_gets_one(root: Path) -> None:
    """Kafka 0.8 to 0.10: no id, no epochs, no snapshots, messages instead of batches."""
    old = root / "ancient-0"
    old.mkdir()
    (old / layout.file_name(5, layout.LOG)).write_bytes(
        write_message(5, b"k", b"v", magic=0) + write_message(6, b"k", b"w", magic=1, timestamp=NOW)
    )
    ids = set()
    for _ in range(2):
        async with talking(root, durability=Durability.OS) as talk:
            partition = talk.broker.topics.partition("ancient", 0)
            assert (partition.offsets.start, partition.offsets.end) == (5, 7)
            ids.add(partition.topic_id)
    assert len(ids) == 1


async def test_a_folder_of_another_node_says_how_to_start(root: Path) -> None:
    checkpoints.write_meta_properties(RealDisk(), root, {"version": "0", "broker.id": "3"})
    assert await refusal(root, "belongs to node 3, not to 1: start with --node-id 3")


async def test_an_id_that_no_broker_can_have_counted_up_to_is_passed_over(root: Path) -> None:
    partition_folder(root, "evil", 0, TopicId(bytes(range(3, 19))), b"a", producer=2**63 - 1)
    snapshot = layout.format_snapshot([ProducerEntry(MAX_FOREIGN, 0, 0, 0, 0, NOW, -1, -1)])
    (root / "evil-0" / layout.file_name(1, layout.SNAPSHOT)).write_bytes(snapshot)
    for block in range(2):
        async with talking(root, durability=Durability.OS) as talk:
            assert talk.broker.producer_ids.new() == 4712 + KAFKA_BLOCK * (1 + block)
