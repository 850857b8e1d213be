"""Answers to wrong questions at every version, as a running Apache Kafka 4.3.1 gave them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_lite.coordinator.txns import schemas
from broker_lite.coordinator.txns.state import State
from broker_lite.errors import ErrorCode as E
from broker_lite.shapes import replace
from broker_lite.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker_lite.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from broker_lite.wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from broker_lite.wire.messages.k26_end_txn import EndTxnRequest, EndTxnResponse
from broker_lite.wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
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
from broker_lite.wire.messages.k66_list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tests.apis.test_transactions import Producer
from tests.support.talk import Talk, talking


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path) as talk:
        talk.broker.topics.create("t", 2, {})
        yield talk


async def init(
    talk: Talk, version: int, name: str = "x", given: tuple[int, int] = (-1, -1), timeout_ms: int = 60_000
) -> tuple[int, int, int]:
    request = InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=timeout_ms, producer_id=given[0], producer_epoch=given[1]
    )
    answer = await talk.ask(request, version, InitProducerIdResponse)
    return answer.error_code, answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("version", range(6))
async def test_who_may_begin(talk: Talk, version: int) -> None:
    assert await init(talk, version, "") == (E.INVALID_REQUEST, -1, -1)
    for timeout_ms in (0, -1, 900_001):
        assert await init(talk, version, timeout_ms=timeout_ms) == (E.INVALID_TRANSACTION_TIMEOUT, -1, -1)
    _, producer, epoch = await init(talk, version, timeout_ms=900_000)
    assert await init(talk, version) == (E.NONE, producer, epoch + 1)
    if version < 3:
        return
    fenced = E.PRODUCER_FENCED if version >= 4 else E.INVALID_PRODUCER_EPOCH
    assert await init(talk, version, given=(producer, epoch + 1)) == (E.NONE, producer, epoch + 2)
    assert await init(talk, version, given=(producer, epoch + 1)) == (E.NONE, producer, epoch + 2)
    for given in ((producer, epoch), (producer, epoch + 3), (producer + 1, epoch + 2)):
        assert await init(talk, version, given=given) == (fenced, -1, -1)
    for half in ((producer, -1), (-1, epoch)):
        assert await init(talk, version, given=half) == (E.INVALID_REQUEST, -1, -1)


@pytest.mark.parametrize("version", range(6))
async def test_who_may_add_partitions(talk: Talk, version: int) -> None:
    holder = Producer(talk)
    await holder.init()
    await holder.init()

    async def add(name: str, producer: int, epoch: int, *topics: tuple[str, list[int]]) -> list[int]:
        asked = [AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in topics]
        if version >= 4:
            one = AddPartitionsToTxnTransaction(
                transactional_id=name, producer_id=producer, producer_epoch=epoch, topics=asked
            )
            request = AddPartitionsToTxnRequest(transactions=[one])
        else:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=producer,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=asked,
            )
        answer = await talk.ask(request, version, AddPartitionsToTxnResponse)
        results = answer.results_by_topic_v3_and_below
        if version >= 4:
            results = answer.results_by_transaction[0].topic_results
        return [part.partition_error_code for topic in results for part in topic.results_by_partition]

    fenced = E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH
    t = ("t", [0])
    assert await add("", holder.id, holder.epoch, t) == [E.INVALID_REQUEST]
    assert await add("nope", holder.id, holder.epoch, t) == [E.INVALID_PRODUCER_ID_MAPPING]
    assert await add("x", holder.id + 1, holder.epoch, t) == [E.INVALID_PRODUCER_ID_MAPPING]
    assert await add("x", holder.id, holder.epoch - 1, t) == [fenced]
    assert await add("x", holder.id, holder.epoch + 1, t) == [fenced]
    unknown = [E.OPERATION_NOT_ATTEMPTED, E.UNKNOWN_TOPIC_OR_PARTITION]
    assert await add("x", holder.id, holder.epoch, ("t", [0, 7])) == unknown
    assert await add("x", holder.id, holder.epoch, t, ("nope", [0])) == unknown
    if version < 4:
        internal = [E.OPERATION_NOT_ATTEMPTED, E.TOPIC_AUTHORIZATION_FAILED]
        assert await add("x", holder.id, holder.epoch, t, ("__consumer_offsets", [0])) == internal
    assert await add("x", holder.id, holder.epoch, t) == [E.NONE]
    assert await add("x", holder.id, holder.epoch, ("t", [1, 1])) == [E.NONE, E.NONE]


async def test_a_broker_that_only_asks_is_told_each_partition_once(talk: Talk) -> None:
    holder = Producer(talk)
    await holder.init()
    await holder.add("t", 1)
    one = AddPartitionsToTxnTransaction(
        transactional_id="x",
        producer_id=holder.id,
        producer_epoch=holder.epoch,
        verify_only=True,
        topics=[AddPartitionsToTxnTopic(name="t", partitions=[1, 1, 0])],
    )
    answer = await talk.ask(AddPartitionsToTxnRequest(transactions=[one]), 5, AddPartitionsToTxnResponse)
    told = answer.results_by_transaction[0].topic_results[0].results_by_partition
    assert [(part.partition_index, part.partition_error_code) for part in told] == [
        (1, E.NONE),
        (0, E.TRANSACTION_ABORTABLE),
    ]


@pytest.mark.parametrize("version", range(5))
async def test_who_may_add_offsets(talk: Talk, version: int) -> None:
    holder = Producer(talk)
    await holder.init()
    await holder.init()
    fenced = E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH
    for name, producer, epoch, code in (
        ("", holder.id, holder.epoch, E.INVALID_REQUEST),
        ("nope", holder.id, holder.epoch, E.INVALID_PRODUCER_ID_MAPPING),
        ("x", holder.id + 1, holder.epoch, E.INVALID_PRODUCER_ID_MAPPING),
        ("x", holder.id, holder.epoch - 1, fenced),
        ("x", holder.id, holder.epoch + 1, fenced),
        ("x", holder.id, holder.epoch, E.NONE),
    ):
        request = AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=producer, producer_epoch=epoch, group_id="g"
        )
        assert (await talk.ask(request, version, AddOffsetsToTxnResponse)).error_code == code


@pytest.mark.parametrize("version", range(6))
async def test_who_may_end(talk: Talk, version: int) -> None:
    holder = Producer(talk)
    await holder.init()
    await holder.init()

    async def end(name: str, producer: int, epoch: int, *, commit: bool = True) -> int:
        request = EndTxnRequest(transactional_id=name, producer_id=producer, producer_epoch=epoch, committed=commit)
        return (await talk.ask(request, version, EndTxnResponse)).error_code

    fenced = E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH
    assert await end("", holder.id, holder.epoch) == E.INVALID_REQUEST
    assert await end("nope", holder.id, holder.epoch) == E.INVALID_PRODUCER_ID_MAPPING
    assert await end("x", holder.id, holder.epoch) == E.INVALID_TXN_STATE
    if version < 5:
        assert await end("x", holder.id, holder.epoch, commit=False) == E.INVALID_TXN_STATE
    await holder.add()
    assert await end("x", holder.id + 1, holder.epoch) == E.INVALID_PRODUCER_ID_MAPPING
    assert await end("x", holder.id, holder.epoch - 1) == fenced
    assert await end("x", holder.id, holder.epoch + 1) == fenced
    for _ in range(3):
        assert await end("x", holder.id, holder.epoch) == E.NONE
        assert await end("x", holder.id, holder.epoch, commit=False) == E.INVALID_TXN_STATE
    assert await end("x", holder.id, holder.epoch - 1) == fenced


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_offsets_need_a_group(talk: Talk, version: int) -> None:
    holder = Producer(talk)
    await holder.init()
    assert await holder.commit_offset(1, group="", version=version) == E.INVALID_GROUP_ID


@pytest.mark.parametrize(("version", "generation"), [(1, 0), (2, 0), (2, 1), (2, 2)])
async def test_which_markers_are_taken(talk: Talk, version: int, generation: int) -> None:
    holder = Producer(talk)
    await holder.init()
    await holder.init()
    await holder.add()

    async def mark(epoch: int, coordinator: int, topic: str = "t") -> int:
        marker = WritableTxnMarker(
            producer_id=holder.id,
            producer_epoch=epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
            coordinator_epoch=coordinator,
            transaction_version=generation,
        )
        answer = await talk.ask(WriteTxnMarkersRequest(markers=[marker]), version, WriteTxnMarkersResponse)
        return answer.markers[0].topics[0].partitions[0].error_code

    assert await holder.send(b"a") == E.NONE
    assert await mark(holder.epoch - 1, 0) == E.INVALID_PRODUCER_EPOCH
    assert await mark(holder.epoch, 0, "nope") == E.UNKNOWN_TOPIC_OR_PARTITION
    # Since the second generation a marker needs a higher epoch than its data; with nothing open it only repeats itself.
    assert await mark(holder.epoch, 0) == (E.INVALID_PRODUCER_EPOCH if generation == 2 else E.NONE)
    assert await mark(holder.epoch + 1, 3) == E.NONE
    assert await mark(holder.epoch + 1, 3) == E.NONE
    assert await mark(holder.epoch + 1, 2) == E.TRANSACTION_COORDINATOR_FENCED
    assert talk.broker.topics.partition("t", 0).open_transactions() == {}
    assert await holder.send(b"b") == E.INVALID_PRODUCER_EPOCH
    # Ended by hand, so its own marker is refused: that must not keep the transaction from being completed.
    assert await holder.end(commit=False) == E.NONE
    assert talk.broker.transactions.coordinator.get("x").state.is_complete
    assert await Producer(talk).init() == E.NONE


async def test_transactions_are_found_by_a_pattern_of_their_names(talk: Talk) -> None:
    for name in ("orders-1", "orders-2", "bills-1"):
        await Producer(talk, name).init()

    async def names(pattern: str | None) -> tuple[int, list[str]]:
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern)
        answer = await talk.ask(request, 2, ListTransactionsResponse)
        return answer.error_code, sorted(state.transactional_id for state in answer.transaction_states)

    everything = ["bills-1", "orders-1", "orders-2"]
    assert await names(None) == await names("") == (E.NONE, everything)
    assert await names("orders-.*") == (E.NONE, ["orders-1", "orders-2"])
    assert await names("orders") == (E.NONE, []), "the whole name has to fit"
    assert await names("(") == await names("(?!x)") == (E.INVALID_REGULAR_EXPRESSION, [])


async def test_an_id_without_a_transaction_counts_as_open_for_ever(talk: Talk) -> None:
    await Producer(talk).init()
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[], duration_filter=3_600_000)
    assert len((await talk.ask(request, 1, ListTransactionsResponse)).transaction_states) == 1


async def test_producers_of_a_topic_that_cannot_exist(talk: Talk) -> None:
    for name, code in (("", E.INVALID_TOPIC_EXCEPTION), ("nope", E.UNKNOWN_TOPIC_OR_PARTITION)):
        request = DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=[0])])
        answer = await talk.ask(request, 0, DescribeProducersResponse)
        assert answer.topics[0].partitions[0].error_code == code


async def test_while_the_last_transaction_is_being_completed(talk: Talk) -> None:
    """Its outcome is decided and its markers are on their way. In one turn of the loop nobody sees this, a disk that is
    waited for shows it."""
    holder = Producer(talk)
    await holder.init()
    await holder.add()
    decided = replace(talk.broker.transactions.coordinator.get("x"), state=State.PREPARE_COMMIT)
    talk.broker.transactions.coordinator.apply(schemas.write(decided))
    assert await holder.init() == E.CONCURRENT_TRANSACTIONS
    assert await holder.add("t", 1) == [E.CONCURRENT_TRANSACTIONS]
    for version, code in ((9, E.NOT_ENOUGH_REPLICAS), (11, E.NOT_ENOUGH_REPLICAS), (12, E.CONCURRENT_TRANSACTIONS)):
        assert await holder.send(b"a", version=version) == code
    for version, code in ((3, E.COORDINATOR_NOT_AVAILABLE), (4, E.COORDINATOR_NOT_AVAILABLE),
                          (5, E.CONCURRENT_TRANSACTIONS)):  # fmt: skip
        assert await holder.commit_offset(1, version=version) == code
    assert await holder.end(version=4) == E.CONCURRENT_TRANSACTIONS
    assert await holder.end(version=4, commit=False) == E.INVALID_TXN_STATE
    await talk.broker.transactions.complete_prepared()
    assert await holder.end(version=4) == E.NONE


@pytest.mark.parametrize("version", range(6))
async def test_offsets_wait_until_their_group_is_loaded(talk: Talk, version: int) -> None:
    holder = Producer(talk, new=version >= 5)
    await holder.init()
    groups = talk.broker.groups
    if version < 5:
        request = AddOffsetsToTxnRequest(
            transactional_id="x", producer_id=holder.id, producer_epoch=holder.epoch, group_id="g"
        )
        assert (await talk.ask(request, 3, AddOffsetsToTxnResponse)).error_code == E.NONE
    groups._loading.add(groups.partition_of("g"))
    loading = E.COORDINATOR_LOAD_IN_PROGRESS if version >= 2 else E.COORDINATOR_NOT_AVAILABLE
    part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    commit = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=holder.id,
        producer_epoch=holder.epoch,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[part])],
    )
    for code in (loading, E.NONE):
        answer = await talk.ask(commit, version, TxnOffsetCommitResponse)
        assert answer.topics[0].partitions[0].error_code == code
        groups._loading.clear()
