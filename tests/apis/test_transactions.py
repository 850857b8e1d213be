"""Transactions as producers of both generations see them, request by request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from broker_lite.broker.plain_records import latest_of_each_key
from broker_lite.clock import ManualClock
from broker_lite.config.start import Durability
from broker_lite.errors import ErrorCode
from broker_lite.ids import TRANSACTION_STATE_TOPIC
from broker_lite.records.batch import walk
from broker_lite.wire.messages.k01_fetch import FetchResponse, PartitionData
from broker_lite.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from broker_lite.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker_lite.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from broker_lite.wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from broker_lite.wire.messages.k26_end_txn import EndTxnRequest, EndTxnResponse
from broker_lite.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from broker_lite.wire.messages.k61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from broker_lite.wire.messages.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from broker_lite.wire.messages.k66_list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tests.support.talk import NOW, Talk, bytes_of, talking


class Producer:
    """A transactional producer; `new` is the generation that adds partitions by writing to them (KIP-890)."""

    def __init__(self, talk: Talk, name: str = "x", *, new: bool = False) -> None:
        self.talk, self.name, self.new = talk, name, new
        self.id = self.epoch = -1
        self.sequence: dict[tuple[str, int], int] = {}
        self.last_offset = -1
        """Of the record that was sent last."""

    async def init(self, version: int = 4, timeout_ms: int = 60_000) -> int:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=timeout_ms)
        answer = await self.talk.ask(request, version, InitProducerIdResponse)
        if answer.error_code == 0:
            self.id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, {}
        return answer.error_code

    async def add(self, topic: str = "t", *partitions: int, version: int = 3) -> list[int]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions or (0,)))],
        )
        answer = await self.talk.ask(request, version, AddPartitionsToTxnResponse)
        return [one.partition_error_code for one in answer.results_by_topic_v3_and_below[0].results_by_partition]

    async def send(self, value: bytes, topic: str = "t", partition: int = 0, version: int | None = None) -> int:
        sequence = self.sequence.get((topic, partition), 0)
        answer = await self.talk.produce(
            topic,
            value,
            partition=partition,
            version=version or (12 if self.new else 9),
            producer=(self.id, self.epoch, sequence),
            transactional_id=self.name,
        )
        if answer.error_code == 0:
            self.sequence[topic, partition] = sequence + 1
            self.last_offset = answer.base_offset
        return answer.error_code

    async def end(self, *, commit: bool = True, version: int | None = None) -> int:
        version = version or (5 if self.new else 3)
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self.id, producer_epoch=self.epoch, committed=commit
        )
        answer = await self.talk.ask(request, version, EndTxnResponse)
        if answer.error_code == 0 and version >= 5:
            if (answer.producer_id, answer.producer_epoch) != (self.id, self.epoch):
                self.sequence = {}
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer.error_code

    async def commit_offset(self, offset: int, group: str = "g", version: int | None = None) -> int:
        part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[part])],
        )
        answer = await self.talk.ask(request, version or (5 if self.new else 3), TxnOffsetCommitResponse)
        return answer.topics[0].partitions[0].error_code


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path) as talk:
        talk.broker.topics.create("t", 2, {})
        yield talk


async def read(talk: Talk, *, committed: bool, partition: int = 0) -> PartitionData:
    response = await talk.fetch("t", 0, partition=partition, committed=committed)
    return response.responses[0].partitions[0]


def ends(data: PartitionData) -> tuple[int, int]:
    """How many batches came, and how many of them are markers."""
    batches = list(walk(memoryview(bytes_of(data))))
    return len(batches), sum(batch.is_control for batch in batches)


async def committed_offset(talk: Talk, *, stable: bool = False) -> tuple[int, int]:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)], require_stable=stable)
    answer = await talk.ask(request, 8, OffsetFetchResponse)
    part = answer.groups[0].topics[0].partitions[0]
    return part.error_code, part.committed_offset


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("commit", [True, False])
async def test_readers_of_committed_records_wait_for_the_end(talk: Talk, new: bool, commit: bool) -> None:
    producer = Producer(talk, new=new)
    assert await producer.init() == 0
    if not new:
        assert await producer.add() == [0]
    assert await producer.send(b"a") == 0
    assert ends(await read(talk, committed=True)) == (0, 0)
    assert ends(await read(talk, committed=False)) == (1, 0)
    epoch = producer.epoch
    assert await producer.end(commit=commit) == 0
    assert producer.epoch == epoch + (1 if new else 0)
    after = await read(talk, committed=True)
    assert ends(after) == (2, 1)
    assert after.last_stable_offset == after.high_watermark == 2
    aborted = [(txn.producer_id, txn.first_offset) for txn in after.aborted_transactions or []]
    assert aborted == ([] if commit else [(producer.id, 0)])


@pytest.mark.parametrize("new", [False, True])
async def test_many_transactions_follow_each_other(talk: Talk, new: bool) -> None:
    producer = Producer(talk, new=new)
    await producer.init()
    for number in range(5):
        if not new:
            assert await producer.add("t", 0, 1) == [0, 0]
        assert await producer.send(b"a") == 0
        assert await producer.send(b"b", partition=1) == 0
        assert await producer.end(commit=number % 2 == 0) == 0
    data = await read(talk, committed=True)
    assert ends(data) == (10, 5)
    assert [txn.first_offset for txn in data.aborted_transactions or []] == [2, 6]


async def test_transactional_ids_go_with_the_topic_that_keeps_them(talk: Talk) -> None:
    producer = Producer(talk, new=True)
    assert await producer.init() == 0
    assert await producer.send(b"a") == 0
    topic = talk.broker.topics.get(TRANSACTION_STATE_TOPIC)
    assert topic is not None
    talk.broker.delete_topic(topic)
    assert await producer.end() == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert talk.broker.topics.get(TRANSACTION_STATE_TOPIC) is None
    before = producer.id
    assert await producer.init() == 0
    assert producer.id != before
    assert await producer.send(b"b", partition=1) == 0
    assert await producer.end() == 0


async def test_a_waiting_reader_of_committed_records_is_woken_by_the_marker(talk: Talk) -> None:
    producer = Producer(talk, new=True)
    await producer.init()
    await producer.send(b"a")
    got: list[FetchResponse] = []

    async def wait() -> None:
        got.append(await talk.fetch("t", 0, wait_ms=10_000, committed=True))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await producer.send(b"b")
        await anyio.wait_all_tasks_blocked()
        assert not got, "an append does not move the stable offset"
        await producer.end()
    assert ends(got[0].responses[0].partitions[0]) == (3, 1)


@pytest.mark.parametrize(("version", "code"), [(9, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)])
async def test_old_producers_must_add_a_partition_before_they_write_to_it(
    talk: Talk, version: int, code: ErrorCode
) -> None:
    producer = Producer(talk)
    await producer.init()
    assert await producer.send(b"a", version=version) == code
    await producer.add("t", 1)
    assert await producer.send(b"a", version=version) == code
    assert await producer.send(b"a", partition=1, version=version) == 0


async def test_one_unknown_partition_keeps_all_others_out(talk: Talk) -> None:
    producer = Producer(talk)
    await producer.init()
    unknown, not_attempted = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    assert await producer.add("t", 0, 7) == [not_attempted, unknown]
    assert await producer.end() == ErrorCode.INVALID_TXN_STATE


async def test_a_new_producer_fences_the_old_one_everywhere(talk: Talk) -> None:
    old, new = Producer(talk), Producer(talk)
    await old.init()
    await old.add()
    await old.send(b"zombie")
    assert await new.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert await new.init() == 0
    assert (new.id, new.epoch) == (old.id, old.epoch + 2)
    assert await old.send(b"late") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await old.add() == [ErrorCode.PRODUCER_FENCED]
    assert await old.add(version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert await old.end() == ErrorCode.PRODUCER_FENCED
    assert await old.end(version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    data = await read(talk, committed=True)
    assert [txn.first_offset for txn in data.aborted_transactions or []] == [0]


async def test_offsets_become_visible_with_the_commit_and_vanish_with_the_abort(talk: Talk) -> None:
    producer = Producer(talk, new=True)
    await producer.init()
    for commit, offset, expected in ((True, 5, 5), (False, 9, 5), (True, 7, 7)):
        assert await producer.commit_offset(offset) == 0
        before = await committed_offset(talk)
        assert before[1] != offset
        assert (await committed_offset(talk, stable=True))[0] == ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert await producer.end(commit=commit) == 0
        assert await committed_offset(talk, stable=True) == (0, expected)


@pytest.mark.parametrize(("version", "code"), [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)])
async def test_old_producers_must_add_the_group_first(talk: Talk, version: int, code: ErrorCode) -> None:
    producer = Producer(talk)
    await producer.init()
    assert await producer.commit_offset(5, version=version) == code
    request = AddOffsetsToTxnRequest(
        transactional_id="x", producer_id=producer.id, producer_epoch=producer.epoch, group_id="g"
    )
    assert (await talk.ask(request, 3, AddOffsetsToTxnResponse)).error_code == 0
    assert await producer.commit_offset(5, version=version) == 0
    assert await producer.end() == 0
    assert await committed_offset(talk) == (0, 5)


@pytest.mark.parametrize("version", [4, 5])
async def test_offsets_of_a_stale_or_future_epoch_and_of_a_foreign_producer_are_refused(
    talk: Talk, version: int
) -> None:
    producer = Producer(talk, new=True)
    await producer.init()
    await producer.init()
    await producer.send(b"a")
    for epoch in (producer.epoch - 1, producer.epoch + 1):
        other = Producer(talk)
        other.id, other.epoch = producer.id, epoch
        assert await other.commit_offset(1, version=version) == ErrorCode.INVALID_PRODUCER_EPOCH
    other.id, other.epoch = producer.id + 1, producer.epoch
    assert await other.commit_offset(1, version=version) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


async def test_a_transaction_that_is_open_too_long_is_aborted(talk: Talk) -> None:
    clock = talk.broker.clock
    assert isinstance(clock, ManualClock)
    producer = Producer(talk)
    await producer.init(timeout_ms=5000)
    await producer.add()
    await producer.send(b"a")
    await anyio.wait_all_tasks_blocked()
    for _ in range(20):
        clock.advance(1.0)
        await anyio.wait_all_tasks_blocked()
    data = await read(talk, committed=True)
    assert [txn.first_offset for txn in data.aborted_transactions or []] == [0]
    assert await producer.send(b"b") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.end() == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])
@pytest.mark.parametrize("new", [False, True])
async def test_a_transaction_goes_on_after_a_restart(tmp_path: Path, durability: Durability, new: bool) -> None:
    async with talking(tmp_path, durability=durability) as talk:
        talk.broker.topics.create("t", 2, {})
        producer = Producer(talk, new=new)
        await producer.init()
        if not new:
            await producer.add()
        assert await producer.send(b"a") == 0
        if new:
            assert await producer.commit_offset(3) == 0
    async with talking(tmp_path, durability=durability) as talk:
        producer.talk = talk
        assert ends(await read(talk, committed=True)) == (0, 0)
        assert await producer.send(b"b") == 0
        assert await producer.end() == 0
        assert ends(await read(talk, committed=True)) == (3, 1)
        if new:
            assert await committed_offset(talk) == (0, 3)
        assert await Producer(talk, "y").init() == 0


async def test_people_can_look_at_transactions_and_producers(talk: Talk) -> None:
    producer = Producer(talk, new=True)
    await producer.init()
    await producer.send(b"a")
    described = await talk.ask(
        DescribeTransactionsRequest(transactional_ids=["x", "nope", ""]), 0, DescribeTransactionsResponse
    )
    first, unknown, empty = described.transaction_states
    assert (first.transaction_state, first.producer_id, first.transaction_start_time_ms) == (
        "Ongoing",
        producer.id,
        NOW,
    )
    assert [(topic.topic, topic.partitions) for topic in first.topics] == [("t", [0])]
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert empty.error_code == ErrorCode.INVALID_REQUEST
    request = ListTransactionsRequest(state_filters=["Ongoing", "Nonsense"], producer_id_filters=[])
    listed = await talk.ask(request, 0, ListTransactionsResponse)
    assert [state.transactional_id for state in listed.transaction_states] == ["x"]
    assert listed.unknown_state_filters == ["Nonsense"]
    producers = await talk.ask(
        DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])]), 0, DescribeProducersResponse
    )
    (active,) = producers.topics[0].partitions[0].active_producers
    assert (active.producer_id, active.current_txn_start_offset) == (producer.id, 0)


@pytest.mark.parametrize(("level", "written"), [(0, 0), (1, 1), (2, 1)])
async def test_the_level_of_the_feature_says_in_which_version_the_state_is_written(
    talk: Talk, level: int, written: int
) -> None:
    talk.broker.features_on.set({"transaction.version": level})
    producer = Producer(talk)
    assert await producer.init() == 0
    assert await producer.add() == [0]
    assert await producer.send(b"a") == 0
    assert await producer.end() == 0
    states = [
        value
        for partition in talk.broker.topics.open_partitions()
        if partition.tp.topic == TRANSACTION_STATE_TOPIC
        for _, value in latest_of_each_key(partition).values()
    ]
    assert [value and value[:2] for value in states] == [written.to_bytes(2, "big")]


@pytest.mark.parametrize("commit", [True, False])
async def test_offsets_of_a_group_that_is_deleted_leave_no_transaction_open_in_it(talk: Talk, commit: bool) -> None:
    producer = Producer(talk, new=True)
    await producer.init()
    assert await producer.commit_offset(5) == 0
    offsets = talk.broker.groups.of("g").offsets
    talk.broker.groups.delete("g")
    assert not offsets.has_open_transaction("g")
    assert await producer.end(commit=commit) == 0
    assert not offsets.has_open_transaction("g")
    assert await committed_offset(talk) == (0, -1)
