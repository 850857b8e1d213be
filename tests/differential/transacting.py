"""Somebody who holds a transactional id and somebody who writes, for conversations about transactions.

Apache Kafka completes a transaction after it has answered EndTxn, so a holder waits until the id has settled before
the next thing is said.  Names carry a salt: the same broker can be asked again.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass

from broker_lite.records.build import NewRecord, build_batch
from broker_lite.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from broker_lite.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from broker_lite.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from broker_lite.wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from broker_lite.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker_lite.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from broker_lite.wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from broker_lite.wire.messages.k26_end_txn import EndTxnRequest, EndTxnResponse
from broker_lite.wire.messages.k61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from broker_lite.wire.messages.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from tests.differential.conversations import NOW, make, topic
from tests.differential.wire import Wire

SALT = secrets.token_hex(2)
_NOT_YET = (14, 15, 16, 51)
_WITHIN = 20.0
_OFFSETS = "__consumer_offsets"


def blank(wire: Wire, *names: str) -> None:
    """Forget these fields of the last answer: times."""
    label, answer = wire.seen[-1]
    wire.seen[-1] = (label, _without(answer, names))


def _without(value: object, names: tuple[str, ...]) -> object:
    if isinstance(value, dict):
        return {key: _without(inner, names) for key, inner in value.items() if key not in names}
    if isinstance(value, list):
        return [_without(inner, names) for inner in value]
    return value


def _without_internal(value: object) -> object:
    """The internal topics have as many partitions as each broker was told to make."""
    if isinstance(value, dict):
        return {key: _without_internal(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_internal(one) for one in value if not isinstance(one, dict) or one.get("topic") != _OFFSETS]
    return value


@dataclass
class Holder:
    """Somebody who holds a transactional id, as far as they know."""

    wire: Wire
    name: str
    id: int = -1
    epoch: int = -1

    def init(self) -> Holder:
        """Begin anew, without comparing."""
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        deadline = time.monotonic() + _WITHIN
        while True:
            answer = self.wire.ask("init", request, 4, InitProducerIdResponse, note=False)
            assert answer is not None
            if answer.error_code not in _NOT_YET:
                break
            assert time.monotonic() < deadline, f"{self.name}: {answer}"
            find = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.name])
            self.wire.ask("find", find, 4, FindCoordinatorResponse, note=False)
        assert answer.error_code == 0, answer
        self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return self

    def told_init(
        self, label: str, version: int, given: tuple[int, int] = (-1, -1), timeout: int = 60_000
    ) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id=self.name,
            transaction_timeout_ms=timeout,
            producer_id=given[0],
            producer_epoch=given[1],
        )
        answer = self.wire.ask(label, request, version, InitProducerIdResponse)
        assert answer is not None
        if answer.error_code == 0:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer

    def add(self, *topics: str, partition: int = 0) -> None:
        """Make partitions part of the transaction, without comparing."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=[partition]) for name in topics],
        )
        answer = self.wire.ask("add", request, 3, AddPartitionsToTxnResponse, note=False)
        assert answer is not None
        codes = [
            one.partition_error_code for t in answer.results_by_topic_v3_and_below for one in t.results_by_partition
        ]
        assert codes == [0] * len(topics), codes

    def add_group(self, group: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name, producer_id=self.id, producer_epoch=self.epoch, group_id=group
        )
        self.wire.ask("add", request, 3, AddOffsetsToTxnResponse, note=False)

    def end(
        self, label: str, version: int, *, commit: bool, producer: int | None = None, epoch: int | None = None
    ) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.id if producer is None else producer,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=commit,
        )
        answer = self.wire.ask(label, request, version, EndTxnResponse)
        assert answer is not None
        self.settle()
        return answer

    def settle(self) -> None:
        """Until no transaction is being completed."""
        deadline = time.monotonic() + _WITHIN
        request = DescribeTransactionsRequest(transactional_ids=[self.name])
        while True:
            answer = self.wire.ask("settle", request, 0, DescribeTransactionsResponse, note=False)
            assert answer is not None
            if not answer.transaction_states[0].transaction_state.startswith("Prepare"):
                return
            assert time.monotonic() < deadline, f"{self.name}: {answer}"

    def describe(self, label: str) -> None:
        request = DescribeTransactionsRequest(transactional_ids=[self.name])
        self.wire.ask(label, request, 0, DescribeTransactionsResponse)
        in_order(self.wire)
        blank(self.wire, "transaction_start_time_ms")
        label, answer = self.wire.seen[-1]
        self.wire.seen[-1] = (label, _without_internal(answer))


@dataclass
class Writer:
    """Produces to one topic whose id it knows."""

    wire: Wire
    topic: str
    topic_id: bytes

    def write(
        self,
        label: str,
        version: int,
        producer: tuple[int, int, int],
        name: str | None,
        *,
        transactional: bool = True,
        partition: int = 0,
        note: bool = True,
    ) -> int:
        batch = build_batch(
            [NewRecord(key=b"k", value=b"v")],
            timestamp=NOW,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
            transactional=transactional,
        )
        data = PartitionProduceData(index=partition, records=memoryview(batch))
        request = ProduceRequest(
            transactional_id=name,
            acks=-1,
            timeout_ms=5000,
            topic_data=[TopicProduceData(name=self.topic, topic_id=self.topic_id, partition_data=[data])],
        )
        answer = self.wire.ask(label, request, version, ProduceResponse, note=note)
        return -99 if answer is None else answer.responses[0].partition_responses[0].error_code

    def read(self, label: str) -> None:
        """All that readers of both kinds see, and how far."""
        for isolation in (0, 1):
            asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=1 << 20,
                isolation_level=isolation,
                topics=[FetchTopic(topic=self.topic, partitions=[asked])],
            )
            self.wire.ask(f"{label} {isolation}", request, 11, FetchResponse)
            last = ListOffsetsPartition(partition_index=0, timestamp=-1)
            offsets = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=isolation,
                topics=[ListOffsetsTopic(name=self.topic, partitions=[last])],
            )
            self.wire.ask(f"{label} {isolation}", offsets, 5, ListOffsetsResponse)

    def producers(self, label: str) -> None:
        request = DescribeProducersRequest(topics=[TopicRequest(name=self.topic, partition_indexes=[0])])
        self.wire.ask(label, request, 0, DescribeProducersResponse)
        blank(self.wire, "last_timestamp")


def writer(wire: Wire, name: str, partitions: int = 1) -> Writer:
    """A new topic, whose leader knows of it."""
    Holder(wire, f"first-{SALT}").init()  # takes producer id 0, which could not be told from none
    name = f"{name}-{SALT}"
    made = Writer(wire, name, make(wire, topic(name, partitions))[name])
    deadline = time.monotonic() + _WITHIN
    asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=asked)])
    while True:
        answer = wire.ask("ready", request, 5, ListOffsetsResponse, note=False)
        assert answer is not None
        if not any(part.error_code for part in answer.topics[0].partitions):
            return made
        assert time.monotonic() < deadline, answer


def in_order(wire: Wire) -> None:
    """Apache Kafka answers in the order of a hash map."""
    label, answer = wire.seen[-1]
    wire.seen[-1] = (label, _sorted(answer))


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return sorted((_sorted(inner) for inner in value), key=repr)
    return value


def begin(wire: Wire, name: str) -> Holder:
    return Holder(wire, f"{name}-{SALT}").init()
