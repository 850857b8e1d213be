"""Somebody else's producer id in a transaction of one's own: the id is no secret, and opens nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_lite.errors import ErrorCode
from broker_lite.ids import INTERNAL_TOPICS
from broker_lite.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker_lite.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from broker_lite.wire.messages.k26_end_txn import EndTxnRequest, EndTxnResponse
from broker_lite.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.security.hiding import HIDDEN, MINE, hiding, kept, own
from tests.support.talk import Talk

MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with hiding(tmp_path) as talk:
        own(talk)
        asked = InitProducerIdRequest(transactional_id=MINE, transaction_timeout_ms=1000)
        assert (await talk.ask(asked, 4, InitProducerIdResponse)).error_code == 0
        yield talk


def theirs(talk: Talk) -> tuple[int, int]:
    found = talk.broker.transactions.coordinator.get(HIDDEN)
    return found.producer_id, found.epoch


def adding(name: str, producer: tuple[int, int], topic: str = MINE) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
    )


async def added(talk: Talk, request: AddPartitionsToTxnRequest) -> int:
    response = await talk.ask(request, 3, AddPartitionsToTxnResponse)
    return response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code


@pytest.mark.parametrize("later", [0, 1, 100])
async def test_anothers_producer_id_does_nothing_in_a_transaction_of_ones_own(talk: Talk, later: int) -> None:
    before = kept(talk)
    producer, epoch = theirs(talk)
    written = await talk.produce(MINE, b"v", producer=(producer, epoch + later, 0), transactional_id=MINE)
    assert written.error_code != 0
    assert talk.broker.topics.partition(MINE, 0).offsets.end == 0
    assert await added(talk, adding(MINE, (producer, epoch + later))) == MAPPING
    for commit in (True, False):
        end = EndTxnRequest(transactional_id=MINE, producer_id=producer, producer_epoch=epoch + later, committed=commit)
        assert (await talk.ask(end, 4, EndTxnResponse)).error_code == MAPPING
    part = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_leader_epoch=-1, committed_metadata=""
    )
    offsets = TxnOffsetCommitRequest(
        transactional_id=MINE,
        group_id=MINE,
        producer_id=producer,
        producer_epoch=epoch + later,
        topics=[TxnOffsetCommitRequestTopic(name=MINE, partitions=[part])],
    )
    told = await talk.ask(offsets, 5, TxnOffsetCommitResponse)
    assert [one.error_code for topic in told.topics for one in topic.partitions] == [MAPPING]
    given = InitProducerIdRequest(
        transactional_id=MINE, transaction_timeout_ms=1000, producer_id=producer, producer_epoch=epoch + later
    )
    assert (await talk.ask(given, 4, InitProducerIdResponse)).error_code != 0
    assert kept(talk) == before


async def test_anothers_transactional_id_is_refused_before_anything_is_looked_at(talk: Talk) -> None:
    before = kept(talk)
    cases = [(HIDDEN, theirs(talk)), (HIDDEN, (0, 0)), (HIDDEN, (2**63 - 1, 0)), ("", theirs(talk))]
    for name, producer in cases:
        code = await added(talk, adding(name, producer))
        assert code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        end = EndTxnRequest(transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=True)
        told = (await talk.ask(end, 4, EndTxnResponse)).error_code
        assert told == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        written = await talk.produce(MINE, b"v", producer=(*producer, 0), transactional_id=name)
        assert written.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert kept(talk) == before


async def test_many_transactions_at_once_are_for_brokers(talk: Talk) -> None:
    """Version 4 names them in a list; not even one's own passes there without ClusterAction."""
    producer, epoch = theirs(talk)
    for verify in (True, False):
        asked = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=name,
                    producer_id=producer,
                    producer_epoch=epoch,
                    verify_only=verify,
                    topics=[AddPartitionsToTxnTopic(name=HIDDEN, partitions=[0])],
                )
                for name in (HIDDEN, MINE)
            ]
        )
        response = await talk.ask(asked, 5, AddPartitionsToTxnResponse)
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert response.results_by_transaction == []


@pytest.mark.parametrize("topic", sorted(INTERNAL_TOPICS))
async def test_nobody_makes_the_brokers_own_topics_part_of_a_transaction(talk: Talk, topic: str) -> None:
    talk.facts.principal = "User:root"
    found = talk.broker.transactions.coordinator.get(MINE)
    code = await added(talk, adding(MINE, (found.producer_id, found.epoch), topic))
    assert code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (await talk.produce(topic, b"v")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
