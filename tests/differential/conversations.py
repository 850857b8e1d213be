"""What is said to both brokers: every API that both serve at every version, with right and wrong values.

A conversation is a function that talks to one broker; it is held with each, and the answers are compared one by one.
Names carry the version, so that each version meets a fresh topic or group.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.compression import Codec
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
from broker_lite.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from broker_lite.wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from broker_lite.wire.messages.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from broker_lite.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from broker_lite.wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from broker_lite.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker_lite.wire.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from broker_lite.wire.messages.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from broker_lite.wire.messages.k60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from broker_lite.wire.messages.k75_describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.differential.wire import Wire

R = TypeVar("R")
Conversation = Callable[[Wire, dict[int, range]], None]
NOW = 1_794_800_000_000
ID = b"0123456789abcdef"


def topic(name: str, partitions: int = 1, replicas: int = 1, **more: object) -> CreatableTopic:
    configs = more.get("configs", {})
    assigned = more.get("assigned", {})
    assert isinstance(configs, dict)
    assert isinstance(assigned, dict)
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[CreatableReplicaAssignment(partition_index=at, broker_ids=ids) for at, ids in assigned.items()],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


def make(wire: Wire, *topics: CreatableTopic) -> dict[str, bytes]:
    """Make topics without comparing the answer; name -> id."""
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=False)
    response = wire.ask("make", request, 7, CreateTopicsResponse, note=False)
    assert response is not None
    for made in response.topics:
        for index in range(made.num_partitions):
            _await_leader(wire, made.name, index)
    return {made.name: made.topic_id for made in response.topics}


def _await_leader(wire: Wire, name: str, index: int) -> None:
    """Kafka answers before its broker knows of the topic."""
    asked = ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=index, timestamp=-1)])
    until(
        lambda: wire.ask(
            "leader", ListOffsetsRequest(replica_id=-1, topics=[asked]), 6, ListOffsetsResponse, note=False
        ),
        lambda answer: answer.topics[0].partitions[0].error_code == 0,
    )


def until(ask: Callable[[], R | None], good: Callable[[R], bool]) -> None:
    end = time.monotonic() + 30
    while (answer := ask()) is None or not good(answer):
        assert time.monotonic() < end, f"the broker is not ready: {answer}"
        time.sleep(0.02)


def is_good(answer: FindCoordinatorResponse | InitProducerIdResponse) -> bool:
    return answer.error_code == 0


def warm_up(wire: Wire) -> None:
    """Kafka makes its internal topics when they are first asked for."""
    for kind in (0, 1):
        coordinator = FindCoordinatorRequest(key="x", key_type=kind)
        until(partial(wire.ask, "warm", coordinator, 3, FindCoordinatorResponse, note=False), is_good)
    for name in (None, "warm-1", "warm-2", "warm-3", "warm-4", "warm-5", "warm-6", "warm-7", "warm-8"):
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000)
        until(partial(wire.ask, "warm", request, 4, InitProducerIdResponse, note=False), is_good)


def create_topics(wire: Wire, both: dict[int, range]) -> None:
    for version in both[19]:
        tag = f"ct{version}"
        cases = {
            "plain": topic(f"{tag}-a", 2),
            "again": topic(f"{tag}-a", 2),
            "defaults": topic(f"{tag}-b", -1, -1),
            "slash": topic("a/b"),
            "empty name": topic(""),
            "dot": topic("."),
            "dots": topic(".."),
            "long": topic("x" * 250),
            "longest": topic(tag + "y" * (249 - len(tag))),
            "no partitions": topic(f"{tag}-c", 0),
            "negative partitions": topic(f"{tag}-c", -2),
            "no replicas": topic(f"{tag}-c", 1, 0),
            "negative replicas": topic(f"{tag}-c", 1, -2),
            "three replicas": topic(f"{tag}-c", 1, 3),
            "unknown key": topic(f"{tag}-c", configs={"no.such.key": "1"}),
            "bad value": topic(f"{tag}-c", configs={"retention.ms": "soon"}),
            "null value": topic(f"{tag}-c", configs={"retention.ms": None}),
            "below": topic(f"{tag}-c", configs={"max.message.bytes": "-1"}),
            "configs": topic(f"{tag}-d", configs={"cleanup.policy": "compact,delete", "retention.ms": "1000"}),
            "assigned": topic(f"{tag}-e", -1, -1, assigned={0: [1], 1: [1]}),
            "assigned and counted": topic(f"{tag}-f", 2, 1, assigned={0: [1]}),
            "assigned elsewhere": topic(f"{tag}-f", -1, -1, assigned={0: [7]}),
            "assigned twice": topic(f"{tag}-f", -1, -1, assigned={0: [1, 1]}),
            "assigned nowhere": topic(f"{tag}-f", -1, -1, assigned={0: []}),
            "assigned with a gap": topic(f"{tag}-f", -1, -1, assigned={0: [1], 2: [1]}),
            "dotted": topic(f"{tag}.g_h"),
            "underscored": topic(f"{tag}_g.h"),
        }
        for validate_only in (True, False):
            for label, asked in cases.items():
                request = CreateTopicsRequest(topics=[asked], timeout_ms=10_000, validate_only=validate_only)
                wire.ask(f"{label}{' only checked' if validate_only else ''}", request, version, CreateTopicsResponse)
        twice = CreateTopicsRequest(
            topics=[topic(f"{tag}-t"), topic(f"{tag}-t")], timeout_ms=10_000, validate_only=False
        )
        wire.ask("twice", twice, version, CreateTopicsResponse)
        late = CreateTopicsRequest(topics=[topic(f"{tag}-l")], timeout_ms=-1, validate_only=False)
        wire.ask("no time", late, version, CreateTopicsResponse)


def delete_topics(wire: Wire, both: dict[int, range]) -> None:
    for version in both[20]:
        ids = make(wire, topic(f"dt{version}-a"), topic(f"dt{version}-b"), topic(f"dt{version}-c"))
        names = [f"dt{version}-a", "nope", "", "a/b"]
        if version < 6:
            for name in names:
                request = DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)
                wire.ask(f"by name {name[-1:]}", request, version, DeleteTopicsResponse)
            twice = DeleteTopicsRequest(topic_names=[f"dt{version}-b"] * 2, timeout_ms=10_000)
            wire.ask("twice", twice, version, DeleteTopicsResponse)
            late = DeleteTopicsRequest(topic_names=[f"dt{version}-c"], timeout_ms=-1)
            wire.ask("no time", late, version, DeleteTopicsResponse)
            continue
        states = {
            "by name": DeleteTopicState(name=f"dt{version}-a", topic_id=bytes(16)),
            "by id": DeleteTopicState(name=None, topic_id=ids[f"dt{version}-b"]),
            "by id again": DeleteTopicState(name=None, topic_id=ids[f"dt{version}-b"]),
            "unknown id": DeleteTopicState(name=None, topic_id=ID),
            "unknown name": DeleteTopicState(name="nope", topic_id=bytes(16)),
            "both": DeleteTopicState(name=f"dt{version}-c", topic_id=ids[f"dt{version}-c"]),
            "neither": DeleteTopicState(name=None, topic_id=bytes(16)),
        }
        for label, state in states.items():
            wire.ask(label, DeleteTopicsRequest(topics=[state], timeout_ms=10_000), version, DeleteTopicsResponse)


def create_partitions(wire: Wire, both: dict[int, range]) -> None:
    for version in both[37]:
        name = f"cp{version}"
        make(wire, topic(name, 2))
        for validate_only in (True, False):
            for count, assigned in (
                (3, None),
                (3, None),
                (2, None),
                (0, None),
                (-1, None),
                (5, [[1], [1]]),
                (6, [[1], [2]]),
            ):
                assignments = None
                if assigned is not None:
                    assignments = [CreatePartitionsAssignment(broker_ids=ids) for ids in assigned]
                for target in (name, "nope"):
                    asked = CreatePartitionsTopic(name=target, count=count, assignments=assignments)
                    request = CreatePartitionsRequest(topics=[asked], timeout_ms=10_000, validate_only=validate_only)
                    wire.ask(
                        f"{target[:2]} {count} {assigned} {validate_only}", request, version, CreatePartitionsResponse
                    )


def metadata(wire: Wire, both: dict[int, range]) -> None:
    ids = make(wire, topic("md-a", 3), topic("md-b", 1))
    for version in both[3]:
        for names in (["md-a"], ["md-b", "md-a"], ["nope"], ["a/b"], [""], ["md-a", "md-a"], ["md-a", "nope", "x y"]):
            if version < 4:
                names = [name for name in names if name in ("md-a", "md-b", "a/b")]
                if not names:
                    continue
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=version < 4
            )
            wire.ask(f"{names}", request, version, MetadataResponse)
        if version >= 1:
            wire.ask(
                "none", MetadataRequest(topics=[], allow_auto_topic_creation=version < 4), version, MetadataResponse
            )
        if version >= 8:
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name="md-a")],
                include_topic_authorized_operations=True,
                include_cluster_authorized_operations=version <= 10,
            )
            wire.ask("operations", request, version, MetadataResponse)
        if version >= 12:
            for label, topic_id in (("known", ids["md-a"]), ("unknown", ID), ("zero", bytes(16))):
                by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id)])
                wire.ask(f"by id, {label}", by_id, version, MetadataResponse)


def batches() -> Iterator[tuple[str, bytes | None]]:
    records = [NewRecord(key=b"k", value=b"v", headers=(("h", b"x"),)), NewRecord(key=None, value=None)]
    for codec in Codec:
        yield codec.name, build_batch(records, timestamp=NOW, codec=codec)
    good = build_batch(records, timestamp=NOW)
    yield "empty", b""
    yield "cut", good[:-3]
    yield "cut in the header", good[:40]
    yield "twice", good + good
    yield "bad checksum", good[:-1] + bytes([good[-1] ^ 1])
    yield "magic 1", good[:16] + b"\x01" + good[17:]
    yield "base offset", build_batch(records, timestamp=NOW, base_offset=5)
    yield (
        "control",
        build_batch(
            records, timestamp=NOW, producer_id=1, producer_epoch=0, base_sequence=0, transactional=False, control=True
        ),
    )
    yield "no sequence", build_batch(records, timestamp=NOW, producer_id=1, producer_epoch=0)
    yield "from the future", build_batch(records, timestamp=NOW + 10**12)
    yield "no time", build_batch([NewRecord(key=None, value=b"x", timestamp=-1)], timestamp=-1)
    yield "large", build_batch([NewRecord(key=None, value=b"x" * 1_100_000)], timestamp=NOW)
    yield "first of 900", build_batch(records, timestamp=NOW, producer_id=900, producer_epoch=0, base_sequence=0)
    yield "repeated", build_batch(records, timestamp=NOW, producer_id=900, producer_epoch=0, base_sequence=0)
    yield "gap", build_batch(records, timestamp=NOW, producer_id=900, producer_epoch=0, base_sequence=7)
    yield "higher epoch", build_batch(records, timestamp=NOW, producer_id=900, producer_epoch=1, base_sequence=0)
    yield "lower epoch", build_batch(records, timestamp=NOW, producer_id=900, producer_epoch=0, base_sequence=2)
    yield "epoch without zero", build_batch(records, timestamp=NOW, producer_id=900, producer_epoch=2, base_sequence=3)
    yield "unknown producer", build_batch(records, timestamp=NOW, producer_id=901, producer_epoch=4, base_sequence=9)


def produce(wire: Wire, both: dict[int, range]) -> None:
    for version in both[0]:
        if version < 3:
            continue
        kinds = {
            "plain": {},
            "compacted": {"cleanup.policy": "compact"},
            "old": {"message.timestamp.before.max.ms": "1000"},
        }
        ids = make(wire, *(topic(f"pr{version}-{kind}", configs=configs) for kind, configs in kinds.items()))
        for kind in kinds:
            name = f"pr{version}-{kind}"
            for label, batch in batches():
                for acks in (1, -1):
                    data = PartitionProduceData(index=0, records=None if batch is None else memoryview(batch))
                    asked = TopicProduceData(name=name, topic_id=ids[name], partition_data=[data])
                    request = ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[asked])
                    wire.ask(f"{kind} {label} acks={acks}", request, version, ProduceResponse)
        good = memoryview(build_batch([NewRecord(key=None, value=b"x")], timestamp=NOW))
        for label, target, index, acks in (
            ("topic", "nope", 0, 1),
            ("partition", "plain", 7, 1),
            ("acks", "plain", 0, 2),
        ):
            name = f"pr{version}-{target}"
            data = PartitionProduceData(index=index, records=good)
            asked = TopicProduceData(name=name, topic_id=ids.get(name, ID), partition_data=[data])
            request = ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[asked])
            wire.ask(f"wrong {label}", request, version, ProduceResponse)


def fill(wire: Wire, name: str, version: int = 9) -> None:
    for number in range(3):
        records = [NewRecord(key=b"k", value=b"v", timestamp=NOW + 1000 * (number * 2 + at)) for at in range(2)]
        batch = memoryview(build_batch(records, timestamp=NOW + 2000 * number, codec=Codec(number)))
        data = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data])
        wire.ask("fill", request, version, ProduceResponse, note=False)


def fetch(wire: Wire, both: dict[int, range]) -> None:
    ids = make(wire, topic("fe", 2))
    fill(wire, "fe")
    for version in both[1]:
        for name, index in (("fe", 0), ("fe", 1), ("fe", 9), ("nope", 0)):
            for offset in (-1, 0, 1, 3, 6, 7):
                for isolation in (0, 1):
                    for limit in (0, 10, 1 << 20):
                        asked = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=limit)
                        target = FetchTopic(topic=name, topic_id=ids.get(name, ID), partitions=[asked])
                        request = FetchRequest(
                            max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, isolation_level=isolation, topics=[target]
                        )
                        wire.ask(f"{name}-{index}@{offset} {isolation} {limit}", request, version, FetchResponse)
        for session, epoch in ((0, 5), (77, 1), (77, 0), (0, -1)):
            if version >= 7:
                asked = FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=100)
                target = FetchTopic(topic="fe", topic_id=ids["fe"], partitions=[asked])
                request = FetchRequest(
                    max_wait_ms=0,
                    min_bytes=1,
                    isolation_level=0,
                    session_id=session,
                    session_epoch=epoch,
                    topics=[target],
                )
                wire.ask(f"session {session} {epoch}", request, version, FetchResponse)
        for current, last in ((0, -1), (9, -1), (-1, 0), (-1, 9)):
            if version >= (12 if last >= 0 else 9):
                asked = FetchPartition(
                    partition=0,
                    fetch_offset=2,
                    partition_max_bytes=100,
                    current_leader_epoch=current,
                    last_fetched_epoch=last,
                )
                target = FetchTopic(topic="fe", topic_id=ids["fe"], partitions=[asked])
                request = FetchRequest(max_wait_ms=0, min_bytes=1, isolation_level=0, topics=[target])
                wire.ask(f"epochs {current} {last}", request, version, FetchResponse)


def list_offsets(wire: Wire, both: dict[int, range]) -> None:
    make(wire, topic("lo", 2))
    fill(wire, "lo")
    times = (*range(-8, 2), NOW - 1, NOW, NOW + 500, NOW + 1000, NOW + 4999, NOW + 5000, NOW + 5001, NOW + 10**9)
    for version in both[2]:
        if version < 1:
            continue
        for name, index in (("lo", 0), ("lo", 1), ("lo", 9), ("nope", 0)):
            for at in times:
                for isolation in (0, 1) if version >= 2 else (0,):
                    asked = ListOffsetsPartition(partition_index=index, timestamp=at)
                    request = ListOffsetsRequest(
                        replica_id=-1,
                        isolation_level=isolation,
                        topics=[ListOffsetsTopic(name=name, partitions=[asked])],
                        timeout_ms=1000,
                    )
                    wire.ask(
                        f"{name}-{index} at {at - NOW if at > 9 else at} {isolation}",
                        request,
                        version,
                        ListOffsetsResponse,
                    )
        twice = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="lo", partitions=[twice, twice])])
        wire.ask("twice", request, version, ListOffsetsResponse)
        for epoch in (0, 9) if version >= 4 else ():
            asked = ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=epoch)
            request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="lo", partitions=[asked])])
            wire.ask(f"epoch {epoch}", request, version, ListOffsetsResponse)


def leader_epochs(wire: Wire, both: dict[int, range]) -> None:
    make(wire, topic("le"))
    fill(wire, "le")
    for version in both[23]:
        for name in ("le", "nope"):
            for current in (-1, 0, 5):
                for epoch in (-2, -1, 0, 1, 5):
                    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
                    request = OffsetForLeaderEpochRequest(
                        replica_id=-1, topics=[OffsetForLeaderTopic(topic=name, partitions=[asked])]
                    )
                    wire.ask(f"{name} {current} {epoch}", request, version, OffsetForLeaderEpochResponse)


def delete_records(wire: Wire, both: dict[int, range]) -> None:
    for version in both.get(21, ()):
        make(wire, topic(f"dr{version}"), topic(f"dr{version}-c", configs={"cleanup.policy": "compact"}))
        fill(wire, f"dr{version}")
        for name, index, offset in (
            (f"dr{version}", 0, 2), (f"dr{version}", 0, 1), (f"dr{version}", 0, 7), (f"dr{version}", 0, -2),
            (f"dr{version}", 0, -1), (f"dr{version}", 4, 0), ("nope", 0, 0), (f"dr{version}-c", 0, 0),
        ):  # fmt: skip
            asked = DeleteRecordsTopic(
                name=name, partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)]
            )
            request = DeleteRecordsRequest(topics=[asked], timeout_ms=5000)
            wire.ask(f"{name[2:]} {index} {offset}", request, version, DeleteRecordsResponse)


def cluster(wire: Wire, both: dict[int, range]) -> None:
    for version in both[60]:
        for operations in (True, False):
            for kind in (1, 2, 3) if version >= 1 else (1,):
                request = DescribeClusterRequest(include_cluster_authorized_operations=operations, endpoint_type=kind)
                wire.ask(f"{operations} {kind}", request, version, DescribeClusterResponse)
    for version in both[10]:
        for kind in (0, 1, 7) if version >= 1 else (0,):
            if version < 4:
                wire.ask(
                    f"kind {kind}", FindCoordinatorRequest(key="g", key_type=kind), version, FindCoordinatorResponse
                )
            else:
                several = FindCoordinatorRequest(key_type=kind, coordinator_keys=["g", "h"])
                wire.ask(f"kind {kind}", several, version, FindCoordinatorResponse)


def topic_partitions(wire: Wire, both: dict[int, range]) -> None:
    make(wire, topic("tp-a", 3), topic("tp-b", 2))
    for version in both[75]:
        for names in (["tp-a"], ["tp-b", "tp-a"], ["nope", "tp-a"], ["a/b"]):
            for limit in (1, 2, 3, 5, 100, 0, -1):
                for cursor in (None, ("tp-a", 1), ("tp-a", 3), ("tp-b", 0), ("tp-z", 0), ("tp-a", -1)):
                    request = DescribeTopicPartitionsRequest(
                        topics=[TopicRequest(name=name) for name in names],
                        response_partition_limit=limit,
                        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
                    )
                    wire.ask(f"{names} {limit} {cursor}", request, version, DescribeTopicPartitionsResponse)


def producer_ids(wire: Wire, both: dict[int, range]) -> None:
    for version in both[22]:
        if version > 5:
            continue
        for name in (None, "", f"tx{version}"):
            for timeout in (60_000, 0, -1, 900_001):
                for given in ((-1, -1), (-1, 0), (5, -1), (999_999, 0)) if version >= 3 else ((-1, -1),):
                    request = InitProducerIdRequest(
                        transactional_id=name,
                        transaction_timeout_ms=timeout,
                        producer_id=given[0],
                        producer_epoch=given[1],
                    )
                    wire.ask(f"{name!r} {timeout} {given}", request, version, InitProducerIdResponse)


DATA: list[Conversation] = [
    create_topics,
    delete_topics,
    create_partitions,
    metadata,
    produce,
    fetch,
    list_offsets,
    leader_epochs,
    delete_records,
    cluster,
    topic_partitions,
    producer_ids,
]
