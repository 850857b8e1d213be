"""Many clients at once on a broker that runs: idle ones, ones that never read, ones that write a byte now and then.

All of it under a ceiling of 512 MB that the kernel holds, where we may make one: nobody is killed, and what a producer
beside was told is kept is there after a restart.

BROKER_LITE_LOAD=1 takes the full numbers; without it a fifth, which a busy machine does in a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from bench.peer import free_port
from broker_lite.cli import certs
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.server.listener import HANDSHAKES
from broker_lite.wire.codec import encode_bytes
from broker_lite.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker_lite.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.broker import BrokerProcess
from tests.support.cgroup import Ceiling, ceiling
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FULL = os.environ.get("BROKER_LITE_LOAD") == "1"
SCALE = 1.0 if FULL else 0.2
MIB = 1 << 20
MOST_MEMORY = 512 * MIB
VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)


@pytest.fixture(autouse=True)
def enough_sockets() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def roof() -> Iterator[Ceiling]:
    with ceiling(MOST_MEMORY) as made:
        yield made
        assert made.killed == 0


class Producer:
    """Writes to `kept`, one record after the other, and remembers what was acknowledged."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._over = threading.Event()
        self.kept: list[bytes] = []
        self.wrong = "it never began"
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Producer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _write(self) -> None:
        self.wrong = "it was hung up on"
        with connect(self._broker) as client:
            while not self._over.wait(0.01):
                value = b"%d" % len(self.kept)
                answer = ask(client, framed(0, 7, produced(value, "kept")))
                offset = int.from_bytes(answer[-8 - 8 - 8 - 4 : -8 - 8 - 4], "big", signed=True)
                if offset != len(self.kept):
                    self.wrong = f"offset {offset} after {len(self.kept)} records"
                    return
                self.kept.append(value)
        self.wrong = ""

    def check(self) -> None:
        """All of it is there when the broker has stopped and started again."""
        assert self.wrong == ""
        assert len(self.kept) > 3
        self._broker.restart()
        settings = {"bootstrap.servers": self._broker.bootstrap, "group.id": "check"}
        consumer = confluent_kafka.Consumer(settings)
        consumer.assign([confluent_kafka.TopicPartition("kept", 0, 0)])
        read: list[bytes] = []
        while len(read) < len(self.kept):
            found = consumer.consume(len(self.kept) - len(read), 10)
            assert found, f"{len(read)} of {len(self.kept)} records"
            read += [message.value() or b"" for message in found]
        consumer.close()
        assert read == self.kept


def produced(value: bytes, topic: str = "t") -> ProduceRequest:
    batch = memoryview(build_batch([NewRecord(key=None, value=value)], timestamp=int(time.time() * 1000)))
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data])


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
        request = framed(0, 7, produced(bytes(MIB - 1000)))
        for _ in range(mib):
            ask(client, request)


@pytest.mark.needs_root
def test_the_ceiling_is_real() -> None:
    with ceiling(64 * MIB) as low:
        if not low.is_real:
            pytest.skip("making a cgroup needs root and a cgroup file system that can be written to")
        hog = low.around(sys.executable, "-c", "x = bytearray(b'x') * (256 << 20)")
        assert subprocess.run(hog, check=False).returncode == -9
        assert low.killed == 1


def test_idle_connections_cost_little_and_hold_up_nobody(tmp_path: Path, roof: Ceiling) -> None:
    many = int(10_000 * SCALE)
    with BrokerProcess(tmp_path, ["--topic", "kept"], command=roof.broker) as broker, Producer(broker) as producer:
        with contextlib.ExitStack() as ends, connect(broker) as active:
            before, alone = memory(broker), slowest_of(active)
            for _ in range(many):
                ends.enter_context(connect(broker))
            beside = slowest_of(active)
            assert memory(broker) - before < 150 * MIB * SCALE
            assert beside < max(2 * alone, 0.05), f"{alone * 1000:.1f} ms alone, {beside * 1000:.1f} ms beside {many}"
            producer.end()
            broker.stop()
            assert len(broker.stderr.splitlines()) <= 20
        broker.start()
        producer.check()


def test_connections_over_tls_fit_in_as_well(tmp_path: Path, roof: Ceiling) -> None:
    """Those who are in take about 32 KiB; those who only begin a handshake 60 KiB, and there are never more than
    `HANDSHAKES` of them."""
    many, stalled = int(10_000 * SCALE / (1 if FULL else 5)), int(5_000 * SCALE)
    certs.make(tmp_path / "certs", ["localhost"])
    port = free_port()
    protected = ["--listen", f"SSL://127.0.0.1:{port}", "--set", f"ssl.keystore.location={tmp_path}/certs/server.pem"]
    context = ssl.create_default_context(cafile=str(tmp_path / "certs" / "ca.pem"))
    with BrokerProcess(tmp_path / "data", ["--topic", "kept", *protected], command=roof.broker) as broker:
        with Producer(broker) as producer, contextlib.ExitStack() as ends:
            before = memory(broker)
            for _ in range(many):
                client = ends.enter_context(socket.create_connection(("127.0.0.1", port), 20))
                client = ends.enter_context(context.wrap_socket(client, server_hostname="localhost"))
            assert memory(broker) - before < many * 40_960 + 16 * MIB
            ask(client)
            before = memory(broker)
            for _ in range(stalled):
                ends.enter_context(socket.create_connection(("127.0.0.1", port), 20))
            with connect(broker) as active:
                assert slowest_of(active) < 1
            assert memory(broker) - before < min(stalled, HANDSHAKES) * 65_536 + 32 * MIB
            ask(client)
            producer.end()
        producer.check()


def test_readers_that_never_read_cost_a_bounded_piece_each(tmp_path: Path, roof: Ceiling) -> None:
    many = int(200 * SCALE)
    topics = ["--topic", "t", "--topic", "kept"]
    with BrokerProcess(tmp_path, topics, command=roof.broker) as broker, Producer(broker) as producer:
        with contextlib.ExitStack() as ends:
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
        producer.end()
        producer.check()


def test_slow_writers_cost_what_they_wrote_and_are_closed_in_time(tmp_path: Path, roof: Ceiling) -> None:
    many = int(1_000 * SCALE)
    quick = ["--topic", "kept", "--set", "broker.lite.request.read.timeout.ms=1500"]
    with BrokerProcess(tmp_path, quick, command=roof.broker) as broker, Producer(broker) as producer:
        with contextlib.ExitStack() as ends:
            before = memory(broker)
            clients = [ends.enter_context(connect(broker)) for _ in range(many)]
            for client in clients:
                client.sendall(struct.pack(">ih", 90 * MIB, 0))
            with connect(broker) as active:
                assert slowest_of(active) < 1
                assert memory(broker) - before < many * 32_768 + 16 * MIB
            assert all(client.recv(1) == b"" for client in clients)
        producer.end()
        producer.check()


async def storm(port: int, seconds: float, per_second: int = 1_000) -> int:
    """New connections at that rate, each of which asks once; how many were answered."""
    answered = 0

    async def one() -> None:
        nonlocal answered
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(VERSIONS)
        size = int.from_bytes(await reader.readexactly(4), "big")
        await reader.readexactly(size)
        answered += 1
        writer.close()

    begin = time.monotonic()
    async with asyncio.timeout(seconds * 5 + 20), asyncio.TaskGroup() as storming:
        for number in range(int(seconds * per_second)):
            late = begin + number / per_second - time.monotonic()
            if late > 0 or number % 100 == 0:
                await asyncio.sleep(max(0.0, late))
            storming.create_task(one())
    return answered


def test_a_storm_of_connections_is_weathered(tmp_path: Path, roof: Ceiling) -> None:
    seconds = 30 * SCALE
    with BrokerProcess(tmp_path, ["--topic", "kept"], command=roof.broker) as broker, Producer(broker) as producer:
        assert asyncio.run(storm(broker.port, seconds)) == int(seconds * 1_000)
        descriptors = Path(f"/proc/{broker.pid}/fd")
        until(lambda: len(list(descriptors.iterdir())) < 60, within=10, what="all sockets closed")
        producer.end()
        producer.check()


def test_too_few_file_descriptors_stop_no_producer(tmp_path: Path, roof: Ceiling) -> None:
    limited = roof.around("prlimit", "--nofile=256:256", sys.executable, "-m", "broker_lite")
    with BrokerProcess(tmp_path, ["--topic", "kept"], command=limited) as broker, Producer(broker) as producer:
        until(lambda: len(producer.kept) > 3, within=10, what="the producer to begin")
        crowd = [connect(broker) for _ in range(400)]
        before = len(producer.kept)
        until(lambda: len(producer.kept) > before + 20, within=20, what="records in spite of the crowd")
        for client in crowd:
            client.close()
        with connect(broker) as later:
            assert ask(later)
        producer.end()
        producer.check()
