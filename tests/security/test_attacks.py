"""Tried as an attacker would: around the ACLs, out of the data folder, into the log, and at the door."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_lite.config.start import Durability
from broker_lite.errors import ErrorCode
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.security.acls import Binding, Operation, Pattern, Permission, Resource
from broker_lite.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from broker_lite.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from broker_lite.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from broker_lite.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from broker_lite.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker_lite.wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from broker_lite.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.security.test_visible import DENIED, SETTINGS, TOPICS, allow
from tests.support.broker import BrokerFailed, BrokerProcess
from tests.support.talk import NOW, Talk, talking

PLACES = [
    "..",
    ".",
    "",
    "../x",
    "a/b",
    "/etc/passwd",
    "a\\b",
    "a\0b",
    "a\nb",
    "x" * 250,
    "\u202e",
    "café",
    "a b",
    "~",
    "@journal",
]


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path, settings=SETTINGS, topics=TOPICS) as talk:
        talk.facts.principal = "User:alice"
        yield talk


def id_of(talk: Talk, name: str) -> bytes:
    topic = talk.broker.topics.get(name)
    assert topic is not None
    return topic.id


def batch(**more: object) -> memoryview:
    return memoryview(build_batch([NewRecord(b"k", b"v")], timestamp=NOW, **more))  # type: ignore[arg-type]


async def codes(talk: Talk, version: int, *topics: TopicProduceData, txn: str | None = None) -> list[int]:
    asked = ProduceRequest(transactional_id=txn, acks=-1, timeout_ms=100, topic_data=list(topics))
    response = await talk.ask(asked, version, ProduceResponse)
    return [part.error_code for topic in response.responses for part in topic.partition_responses]


def length(talk: Talk, name: str) -> int:
    return talk.broker.topics.partition(name, 0).offsets.end


# ------------------------------------------------------------ around the ACLs


async def test_a_write_reaches_the_topics_that_are_allowed_and_no_other(talk: Talk) -> None:
    allow(talk, Operation.WRITE)
    mine, theirs = (
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch())])
        for name in ("mine", "theirs")
    )
    assert sorted(await codes(talk, 9, mine, theirs)) == [0, DENIED]
    assert (length(talk, "mine"), length(talk, "theirs")) == (1, 0)
    assert await codes(talk, 9, theirs) == [DENIED]


async def test_a_write_by_id_is_asked_about_by_name(talk: Talk) -> None:
    allow(talk, Operation.WRITE)
    mine, theirs = (
        TopicProduceData(
            name="", topic_id=id_of(talk, name), partition_data=[PartitionProduceData(index=0, records=batch())]
        )
        for name in ("mine", "theirs")
    )
    assert await codes(talk, 13, mine) == [0]
    assert await codes(talk, 13, theirs) == [DENIED]
    assert sorted(await codes(talk, 13, mine, theirs)) == [0, DENIED]
    assert (length(talk, "mine"), length(talk, "theirs")) == (2, 0)


@pytest.mark.parametrize("txn", [None, "", "other"])
async def test_a_transactional_batch_needs_a_transaction_of_ones_own(talk: Talk, txn: str | None) -> None:
    """Whatever the request says of its transaction, or leaves out."""
    allow(talk, Operation.WRITE)
    records = batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    data = TopicProduceData(name="mine", partition_data=[PartitionProduceData(index=0, records=records)])
    assert await codes(talk, 9, data, txn=txn) != [0]
    assert length(talk, "mine") == 0


async def test_a_read_by_id_is_asked_about_by_name(talk: Talk) -> None:
    allow(talk, Operation.READ)
    for name, expected in (("mine", 0), ("theirs", DENIED)):
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        asked = FetchRequest(
            max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic_id=id_of(talk, name), partitions=[partition])]
        )
        response = await talk.ask(asked, 13, FetchResponse)
        assert [part.error_code for topic in response.responses for part in topic.partitions] == [expected]


async def test_nobody_reads_as_a_replica(talk: Talk) -> None:
    """CVE-2018-1288."""
    allow(talk, Operation.READ)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    asked = FetchRequest(
        replica_id=2, max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="mine", partitions=[partition])]
    )
    response = await talk.ask(asked, 11, FetchResponse)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_offsets_by_id_are_asked_about_by_name(talk: Talk) -> None:
    allow(talk, Operation.READ, "g", Resource.GROUP)
    allow(talk, Operation.READ)
    topics = [
        OffsetCommitRequestTopic(
            topic_id=id_of(talk, name),
            partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")],
        )
        for name in ("mine", "theirs")
    ]
    asked = OffsetCommitRequest(group_id="g", topics=topics)
    response = await talk.ask(asked, 10, OffsetCommitResponse)
    told = {topic.topic_id: [part.error_code for part in topic.partitions] for topic in response.topics}
    assert told == {id_of(talk, "mine"): [0], id_of(talk, "theirs"): [DENIED]}


async def test_a_transactional_id_of_somebody_else_is_not_taken_over(talk: Talk) -> None:
    allow(talk, Operation.WRITE, "mine", Resource.TRANSACTIONAL_ID)
    for name, expected in (("mine", 0), ("theirs", 53), ("", 53)):
        asked = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000)
        response = await talk.ask(asked, 4, InitProducerIdResponse)
        assert response.error_code == expected, name


@pytest.mark.parametrize("operation", [Operation.ALTER, Operation.CLUSTER_ACTION, Operation.DESCRIBE])
async def test_a_transaction_is_ended_by_hand_by_admins_and_brokers(talk: Talk, operation: Operation) -> None:
    binding = Binding(
        Resource.CLUSTER, "kafka-cluster", Pattern.LITERAL, "User:alice", "*", operation, Permission.ALLOW
    )
    talk.broker.acls.add([binding])
    marker = WritableTxnMarker(
        producer_id=1,
        producer_epoch=0,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name="mine", partition_indexes=[0])],
        coordinator_epoch=0,
    )
    response = await talk.ask(WriteTxnMarkersRequest(markers=[marker]), 1, WriteTxnMarkersResponse)
    (code,) = (part.error_code for one in response.markers for topic in one.topics for part in topic.partitions)
    assert (code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED) == (operation is Operation.DESCRIBE)


# ------------------------------------------------------------ out of the data folder


async def test_no_name_leads_out_of_the_data_folder(tmp_path: Path) -> None:
    """Topics whose names are places are refused; names of groups and transactions never become files."""
    home = tmp_path / "deep" / "data"
    async with talking(home, durability=Durability.OS) as talk:
        topics = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
            for name in PLACES
        ]
        made = await talk.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7, CreateTopicsResponse)
        assert {topic.error_code for topic in made.topics} == {ErrorCode.INVALID_TOPIC_EXCEPTION}
        for name in PLACES:
            if len(name) < 250 and name:
                asked = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000)
                await talk.ask(asked, 4, InitProducerIdResponse)
                commit = OffsetCommitRequest(group_id=name, topics=[])
                await talk.ask(commit, 8, OffsetCommitResponse)
    found = {path.name for path in home.iterdir()}
    assert all(
        name.startswith(("__", ".", "@", "meta.", "recovery-", "log-start-", "replication-", "cleaner-"))
        for name in found
    ), found
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["data"]


@pytest.mark.parametrize(
    "key",
    [
        "log.dirs", "ssl.keystore.location", "listener.name.ssl.ssl.keystore.location", "ssl.truststore.location",
        "sasl.oauthbearer.jwks.endpoint.url", "listener.name.x.plain.sasl.jaas.config", "authorizer.class.name",
        "super.users", "principal.builder.class", "broker.lite.sasl.users",
    ],
)  # fmt: skip
async def test_nothing_that_names_a_file_a_class_or_an_address_is_set_from_the_wire(talk: Talk, key: str) -> None:
    """CVE-2023-25194, CVE-2025-27817, CVE-2025-27818."""
    talk.facts.principal = "User:root"
    config = AlterableConfig(name=key, config_operation=0, value="/etc/passwd")
    for name in ("1", ""):
        resource = AlterConfigsResource(resource_type=4, resource_name=name, configs=[config])
        asked = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        response = await talk.ask(asked, 1, IncrementalAlterConfigsResponse)
        assert response.responses[0].error_code != 0
        assert "/etc/passwd" not in str(talk.broker.settings.said(key))


async def test_a_value_with_line_breaks_stays_one_value(tmp_path: Path) -> None:
    value = "0:1\nretention.ms=1\n\u2028{}"
    async with talking(tmp_path, durability=Durability.OS, topics=TOPICS) as talk:
        config = AlterableConfig(name="leader.replication.throttled.replicas", config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=2, resource_name="mine", configs=[config])
        asked = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        await talk.ask(asked, 1, IncrementalAlterConfigsResponse)
    async with talking(tmp_path, durability=Durability.OS) as talk:
        topic = talk.broker.topics.get("mine")
        assert topic is not None
        assert "retention.ms" not in topic.configs


@pytest.mark.slow
def test_a_link_in_the_data_folder_is_not_followed(tmp_path: Path) -> None:
    """Somebody who may write there owns the broker anyway; but an accident must not write elsewhere."""
    (tmp_path / "data").mkdir(mode=0o700)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("precious")
    (tmp_path / "data" / ".lock").symlink_to(elsewhere)
    with pytest.raises(BrokerFailed):
        BrokerProcess(tmp_path).start()
    assert elsewhere.read_text() == "precious"


# ------------------------------------------------------------ into the log, and at the door


@pytest.mark.slow
def test_a_users_name_forges_no_line_of_the_log(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, ["--sasl-user", "alice:hush-hush"]) as broker:
        for user in ('eve\n{"event": "forged", "level": "info"}', "\x1b[2J", "x" * 5000):
            with socket.create_connection(("127.0.0.1", broker.port), 10) as client:
                client.sendall(_framed(17, 1, struct.pack(">h", 5) + b"PLAIN"))
                client.recv(4096)
                token = f"\0{user}\0hush-hush".encode()
                client.sendall(_framed(36, 1, struct.pack(">i", len(token)) + token))
                while client.recv(4096):
                    pass
        broker.stop()
        lines = broker.stderr.splitlines()
        assert "forged" not in {json.loads(line)["event"] for line in lines}
        assert all(len(line) < 1000 for line in lines)
        assert "hush-hush" not in broker.stderr


def _framed(key: int, version: int, body: bytes) -> bytes:
    frame = struct.pack(">hhih", key, version, 7, -1) + body
    return struct.pack(">i", len(frame)) + frame


@pytest.mark.slow
def test_bombs_at_the_door_of_a_listener_with_passwords_cost_a_connection_each(tmp_path: Path) -> None:
    """CVE-2022-34917 and its kin: what a stranger announces is not believed."""
    tags = b"\xff\xff\xff\xff\x0f"
    many = b"".join(bytes([number & 0x7F | 0x80, number >> 7, 0]) for number in range(200, 16_000))
    bombs = {
        "a frame of 2 GiB": struct.pack(">i", 2**31 - 1),
        "a frame of 600 KiB": struct.pack(">i", 600 << 10) + bytes(1000),
        "four billion tags in the header": _headed(tags),
        "fifteen thousand tags in the header": _headed(b"\xe8\x7a" + many),
        "a client id of 32 KiB that is not there": struct.pack(">ihhih", 10, 18, 3, 7, 32767),
        "a token of 2 GiB": _framed(17, 1, struct.pack(">h", 5) + b"PLAIN")
        + _framed(36, 1, struct.pack(">i", 2**31 - 1)),
        "a mechanism without end": _framed(17, 1, struct.pack(">h", 32767) + b"x" * 100),
    }
    with BrokerProcess(tmp_path, ["--sasl-user", "alice:secret"]) as broker:
        statm = Path(f"/proc/{broker.pid}/statm")
        before = int(statm.read_text().split()[1])
        for name, bomb in bombs.items():
            for _ in range(20):
                with socket.create_connection(("127.0.0.1", broker.port), 10) as client:
                    client.sendall(bomb)
                    heard = b"?"
                    try:
                        while heard:
                            heard = client.recv(4096)
                    except ConnectionResetError:
                        continue
                    except TimeoutError:
                        pytest.fail(f"{name}: nobody hung up")
        assert (int(statm.read_text().split()[1]) - before) * 4096 < 32 << 20
        assert "Traceback" not in broker.stderr
        broker.stop()


def _headed(tags: bytes) -> bytes:
    frame = struct.pack(">hhih", 18, 3, 7, -1) + tags
    return struct.pack(">i", len(frame)) + frame
