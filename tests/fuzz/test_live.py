"""Hostile clients against a running broker: valid conversations, then damaged ones, and somebody well-behaved beside.

The broker lives, does not grow without bound, never answers UNKNOWN_SERVER_ERROR because of a bug of its own, and who
behaves notices nothing.  Afterwards it stops cleanly and the log reads as it was written.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import struct
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest

from broker_lite.apis import registry
from broker_lite.client.access import Access, Login
from broker_lite.client.client import Client
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.wire.codec import encode_bytes
from broker_lite.wire.headers import request_is_flexible
from broker_lite.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker_lite.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from broker_lite.wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker_lite.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from broker_lite.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker_lite.wire.messages.k17_sasl_handshake import SaslHandshakeRequest
from broker_lite.wire.messages.k18_api_versions import ApiVersionsRequest
from broker_lite.wire.messages.k22_init_producer_id import InitProducerIdRequest
from broker_lite.wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from broker_lite.wire.schema import spec_of
from tests.support.broker import BrokerProcess
from tests.support.housekeeping import as_arguments
from tests.wire.samples import seeded
from tests.wire.test_fuzz import damaged

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]

REQUESTS = int(os.environ.get("BROKER_LITE_FUZZ_REQUESTS", "20000"))
HOSTILE_CLIENTS = 16
A_CONVERSATION = 25
PATIENCE = 0.5
MOST_MEMORY = 512 << 20
UNKNOWN_SERVER_ERROR = "request.failed"

registry.load()
SERVED = registry.REGISTRY.table()


def frame(request: object, version: int) -> bytes:
    key = spec_of(type(request)).key
    assert key is not None
    tags = b"\0" if request_is_flexible(key, version) else b""
    return struct.pack(">hhih", key, version, 7, 4) + b"fuzz" + tags + encode_bytes(request, version)


def sensible(chance: random.Random) -> bytes:
    """A request that makes sense."""
    topic = f"fuzz-{chance.randrange(5)}"
    match chance.randrange(7):
        case 0:
            return frame(ApiVersionsRequest(client_software_name="fuzz", client_software_version="1"), 3)
        case 1:
            return frame(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 9)
        case 2 | 3:
            records = [NewRecord(key=b"k", value=chance.randbytes(50)) for _ in range(3)]
            batch = build_batch(
                records, timestamp=0, producer_id=chance.choice([-1, 5]), producer_epoch=0, base_sequence=0
            )
            data = [PartitionProduceData(index=0, records=memoryview(batch))]
            asked = [TopicProduceData(name=topic, partition_data=data)]
            return frame(ProduceRequest(acks=chance.choice([0, 1, -1]), timeout_ms=100, topic_data=asked), 9)
        case 4:
            partition = FetchPartition(partition=0, fetch_offset=chance.randrange(10), partition_max_bytes=10_000)
            asked_topics = [FetchTopic(topic=topic, partitions=[partition])]
            return frame(FetchRequest(max_wait_ms=10, min_bytes=1, max_bytes=10_000, topics=asked_topics), 11)
        case 5:
            wanted = [ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])]
            return frame(ListOffsetsRequest(replica_id=-1, topics=wanted), 5)
        case _:
            protocols = [JoinGroupRequestProtocol(name="range", metadata=chance.randbytes(20))]
            joining = JoinGroupRequest(
                group_id="g", session_timeout_ms=6000, rebalance_timeout_ms=100, member_id="",
                protocol_type="consumer", protocols=protocols,
            )  # fmt: skip
            return frame(
                chance.choice([joining, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=9)]), 4
            )


def anything(chance: random.Random) -> bytes:
    """Any served request in any version, filled at random."""
    api = chance.choice(SERVED)
    version = chance.choice(list(api.versions))
    return frame(seeded(chance.randrange(1 << 30)).message(api.request, version), version)


def mixed(chance: random.Random) -> bytes:
    return sensible(chance) if chance.random() < 0.6 else anything(chance)


def knocking(chance: random.Random) -> bytes:
    """What somebody says who wants to log in, in any order."""
    mechanism = chance.choice(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", ""])
    tokens = [b"\0alice\0wrong", b"alice\0alice\0wrong", b"n,,n=alice,r=abc", b"n,,n=nobody,r=abc", b"", b"\x01"]
    tokens += [b"c=biws,r=abc,p=" + b64encode(chance.randbytes(32)), b"n,,\x01auth=Bearer e30.e30.\x01\x01"]
    match chance.randrange(5):
        case 0 | 1:
            return frame(SaslHandshakeRequest(mechanism=mechanism), chance.choice([0, 1]))
        case 2 | 3:
            return frame(SaslAuthenticateRequest(auth_bytes=chance.choice(tokens)), chance.choice([0, 1, 2]))
        case _:
            return chance.choice([*tokens, mixed(chance)])


async def hostile(
    port: int, chance: random.Random, requests: int, says: Callable[[random.Random], bytes] = mixed
) -> int:
    """Conversations until that many requests were sent; returns how many replies came."""
    heard = 0
    while requests > 0:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            for _ in range(min(requests, A_CONVERSATION)):
                requests -= 1
                whole = says(chance)
                sent = damaged(whole, chance) if chance.random() < 0.6 else whole
                size = len(sent) if chance.random() < 0.98 else chance.choice([-1, 0, 2**31 - 1, len(sent) + 5])
                writer.write(struct.pack(">i", size) + sent)
                if chance.random() < 0.1:
                    await writer.drain()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    while data := await reader.read(65536):
                        heard += len(data)
        except (ConnectionError, OSError):
            pass
        finally:
            writer.transport.abort()
    return heard


def memory_of(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def well_behaved(port: int, done: asyncio.Event) -> list[bytes]:
    """Writes and waits for each acknowledgement, as long as the others rage."""
    written: list[bytes] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": f"127.0.0.1:{port}", "acks": "all"})
    while not done.is_set():
        told: list[object] = []
        value = b"%d" % len(written)
        producer.produce("side", value, on_delivery=lambda error, message, told=told: told.append(error))  # type: ignore[misc]
        assert await asyncio.to_thread(producer.flush, 20) == 0
        assert told == [None], told
        written.append(value)
        await asyncio.sleep(0.02)
    return written


@pytest.mark.parametrize("durability", ["os", "fsync"])
async def test_a_broker_outlives_hostile_clients(tmp_path: Path, durability: str) -> None:
    seed = int(os.environ.get("BROKER_LITE_FUZZ_SEED", "2026"))
    with BrokerProcess(tmp_path, ["--topic", "side", "--durability", durability, *as_arguments()]) as broker:
        done = asyncio.Event()
        beside = asyncio.create_task(well_behaved(broker.port, done))
        share = REQUESTS // 2 // HOSTILE_CLIENTS
        heard = await asyncio.gather(
            *(hostile(broker.port, random.Random(seed + number), share) for number in range(HOSTILE_CLIENTS))
        )
        done.set()
        written = await beside
        assert broker.alive, broker.story()
        assert memory_of(broker.pid) < MOST_MEMORY
        assert UNKNOWN_SERVER_ERROR not in broker.stderr, broker.story()
        assert "connection.failed" not in broker.stderr, broker.story()
        assert sum(heard) > 10_000
        broker.restart()
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "check", "auto.offset.reset": "earliest"}
        )
        consumer.assign([confluent_kafka.TopicPartition("side", 0, 0)])
        read: list[bytes | None] = []
        while len(read) < len(written):
            found = consumer.consume(1000, 10)
            assert found, f"{len(read)} of {len(written)} records"
            read += [message.value() for message in found]
        consumer.close()
        assert read == written
        assert "Traceback" not in broker.stderr, broker.story()


async def coming_and_going(bootstrap: str, done: asyncio.Event) -> int:
    """Logs in, writes, leaves and comes again, as long as the others rage; how often."""
    access, times = Access(login=Login("SCRAM-SHA-256", "alice", "secret")), 0
    while not done.is_set():
        async with await Client.connect(bootstrap, access=access) as client:
            (written,) = await client.produce("side", [NewRecord(None, b"%d" % times)])
        assert written.base_offset == times
        times += 1
        await asyncio.sleep(0.02)
    return times


async def test_a_listener_with_passwords_outlives_those_who_have_none(tmp_path: Path) -> None:
    seed = int(os.environ.get("BROKER_LITE_FUZZ_SEED", "2026"))
    arguments = ["--topic", "side", "--sasl-user", "alice:secret"]
    for setting in (
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "broker.lite.sasl.oauthbearer.unsecured=true",
    ):
        arguments += ["--set", setting]
    with BrokerProcess(tmp_path, arguments) as broker:
        done = asyncio.Event()
        beside = asyncio.create_task(coming_and_going(broker.bootstrap, done))
        share = REQUESTS // 10 // HOSTILE_CLIENTS
        await asyncio.gather(
            *(hostile(broker.port, random.Random(seed + number), share, knocking) for number in range(HOSTILE_CLIENTS))
        )
        done.set()
        assert await beside > 0
        assert broker.alive, broker.story()
        assert memory_of(broker.pid) < MOST_MEMORY
        for trouble in (UNKNOWN_SERVER_ERROR, "connection.failed", "Traceback", "secret"):
            assert trouble not in broker.stderr, broker.story()
        broker.stop()
