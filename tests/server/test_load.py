"""Many clients at once on a broker that runs: idle ones, ones that never read, ones that write a byte now and then.

BROKER_LITE_LOAD=1 takes the full numbers; without it a fifth, which a busy machine does in a minute.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_lite.records.build import NewRecord, build_batch
from broker_lite.wire.codec import encode_bytes
from broker_lite.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker_lite.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.broker import BrokerProcess
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FULL = os.environ.get("BROKER_LITE_LOAD") == "1"
SCALE = 1.0 if FULL else 0.2
MIB = 1 << 20
VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)


@pytest.fixture(autouse=True)
def enough_sockets() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connect(broker: BrokerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), 20)


def ask(client: socket.socket, request: bytes = VERSIONS) -> bytes:
    client.sendall(request)
    size = int.from_bytes(_read(client, 4), "big")
    return _read(client, size)


def _read(client: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        more = client.recv(size - len(got))
        assert more, "hung up"
        got += more
    return got


def framed(key: int, version: int, request: object) -> bytes:
    frame = struct.pack(">hhih", key, version, 7, -1) + encode_bytes(request, version)
    return struct.pack(">i", len(frame)) + frame


def memory(broker: BrokerProcess) -> int:
    return int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def slowest_of(client: socket.socket, times: int = 300) -> float:
    """The 99th percentile of answers, in seconds."""
    took = []
    for _ in range(times):
        start = time.perf_counter()
        ask(client)
        took.append(time.perf_counter() - start)
    return sorted(took)[int(times * 0.99)]


def filled(broker: BrokerProcess, mib: int) -> None:
    with connect(broker) as client:
        batch = memoryview(build_batch([NewRecord(key=None, value=bytes(MIB - 1000))], timestamp=0))
        for _ in range(mib):
            data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
            ask(client, framed(0, 7, ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data])))


def test_idle_connections_cost_little_and_hold_up_nobody(tmp_path: Path) -> None:
    many = int(10_000 * SCALE)
    with BrokerProcess(tmp_path) as broker, contextlib.ExitStack() as ends, connect(broker) as active:
        before, alone = memory(broker), slowest_of(active)
        for _ in range(many):
            ends.enter_context(connect(broker))
        beside = slowest_of(active)
        assert memory(broker) - before < 150 * MIB * SCALE
        assert beside < max(2 * alone, 0.05), f"{alone * 1000:.1f} ms alone, {beside * 1000:.1f} ms beside {many}"
        broker.stop()
        assert len(broker.stderr.splitlines()) <= 20


def test_readers_that_never_read_cost_a_bounded_piece_each(tmp_path: Path) -> None:
    many = int(200 * SCALE)
    with BrokerProcess(tmp_path, ["--topic", "t"]) as broker, contextlib.ExitStack() as ends:
        filled(broker, 50)
        before = memory(broker)
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50 * MIB)
        wanted = [FetchTopic(topic="t", partitions=[partition])]
        fetch = framed(1, 7, FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=50 * MIB, topics=wanted))
        for _ in range(many):
            client = ends.enter_context(connect(broker))
            client.sendall(fetch)
        with connect(broker) as active:
            assert slowest_of(active) < 1
        assert memory(broker) - before < many * MIB + 32 * MIB
        broker.stop()


def test_slow_writers_cost_what_they_wrote_and_are_closed_in_time(tmp_path: Path) -> None:
    many = int(1_000 * SCALE)
    quick = ["--set", "broker.lite.request.read.timeout.ms=1500"]
    with BrokerProcess(tmp_path, quick) as broker, contextlib.ExitStack() as ends:
        before = memory(broker)
        clients = [ends.enter_context(connect(broker)) for _ in range(many)]
        for client in clients:
            client.sendall(struct.pack(">ih", 90 * MIB, 0))
        with connect(broker) as active:
            assert slowest_of(active) < 1
            assert memory(broker) - before < many * 32_768 + 16 * MIB
        assert all(client.recv(1) == b"" for client in clients)
        broker.stop()


def test_a_storm_of_connections_is_weathered(tmp_path: Path) -> None:
    seconds = 30 * SCALE
    with BrokerProcess(tmp_path) as broker:
        until_then, came = time.monotonic() + seconds, 0
        while time.monotonic() < until_then:
            with connect(broker) as client:
                ask(client)
            came += 1
        assert came > 100 * seconds, f"{came} in {seconds} s"
        descriptors = Path(f"/proc/{broker.pid}/fd")
        until(lambda: len(list(descriptors.iterdir())) < 60, within=10, what="all sockets closed")
        broker.stop()


def test_too_few_file_descriptors_stop_no_producer(tmp_path: Path) -> None:
    limited = ["prlimit", "--nofile=256:256", sys.executable, "-m", "broker_lite"]
    with BrokerProcess(tmp_path, ["--topic", "t"], command=limited) as broker, connect(broker) as producer:
        crowd = [connect(broker) for _ in range(400)]
        batch = memoryview(build_batch([NewRecord(key=None, value=b"x")], timestamp=0))
        data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
        for _ in range(50):
            ask(producer, framed(0, 7, ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data])))
        for client in crowd:
            client.close()
        with connect(broker) as later:
            assert ask(later)
        broker.stop()
