"""What is kept: starting on a large folder, compaction, and reading what is on disk and nowhere else.

Both brokers are filled alike, by requests that are made once.  A start is timed from the command to the first
acknowledged record in a partition that was there before.
"""

from __future__ import annotations

import json
import os
import re
import resource
import statistics
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from bench import tools
from bench.chapter import Bench, Broker
from bench.measures import Measure
from bench.peer import BrokerLite, discard, end
from bench.raw import PRODUCE, Connection, create_topic, frame, produce_error, produce_frame, string
from broker_lite.records.build import NewRecord, build_batch

TITLE = "What is kept"
AFTER_STOP = Measure("start with 2,000 partitions and 10 GB, stopped before", "s", 1.0, less_is_better=True, limit=2.0)
AFTER_KILL = Measure("start with 2,000 partitions and 10 GB, killed before", "s", 1.0, less_is_better=True)
BEYOND_READ = Measure("the same, beyond the time of one read of the files", "s", None, less_is_better=True, limit=5.0)
COMPACTION = Measure("compaction, records of 1 KB", "MB/s", None, limit=50.0)
P99_BEFORE = Measure("p99 of 1,000 produces a second", "ms", None, less_is_better=True)
P99_DURING = Measure("p99 of 1,000 produces a second while a gigabyte is compacted", "ms", None, less_is_better=True)
P99_FACTOR = Measure("by how much compaction raises that p99", "times", None, less_is_better=True, limit=2.0)
COLD = Measure("consume 5 GB that no cache holds, records of 1 KB", "records/s", 1.0)
OPEN_FILES = Measure(
    "open files, 10,000 partitions and `ulimit -n 1024`", "files", None, less_is_better=True, limit=1024
)
MANY = Measure("produces a second to 10,000 partitions in turn, `ulimit -n 1024`", "requests/s", None)

PARTITIONS_OF_A_TOPIC = 100
FILLER = 1_000_000
A_BATCH = 900
"""Records of 1 KB in a request of the compacted topic."""
DISTINCT = 64
"""Requests of different keys; of the copies only the last ones stay."""
PER_SECOND = 1000
FEW_FILES = 1024


def run(bench: Bench) -> None:
    for broker in bench.contenders(theirs={"log.retention.check.interval.ms": "3600000"}):
        _starts(bench, broker)
    for broker in bench.contenders(
        ours=["--set", "log.cleaner.backoff.ms=200"], theirs={"log.cleaner.backoff.ms": "200"}
    ):
        _compaction(bench, broker)
    for broker in bench.contenders():
        _cold(bench, broker)
    for _ in range(bench.rounds):
        _few_files(bench)


# --- starting -----------------------------------------------------------------------------------------------------


def _starts(bench: Bench, broker: Broker) -> None:
    assert broker.name != "kfake"
    topics = [f"topic-{number}" for number in range(2 if bench.quick else 20)]
    total = 100_000_000 if bench.quick else 10_000_000_000
    _fill(broker, topics, total)
    bench.say(f"{broker.name}: {len(topics) * PARTITIONS_OF_A_TOPIC} partitions with {total / 1e9:g} GB")
    broker.stop()
    bench.note(AFTER_STOP, broker.name, _timed_start(broker, topics[-1]))
    _fill(broker, topics, total // 10)
    assert broker.process is not None
    end(broker.process, kill=True)
    read = _one_read(broker.folder / "data")
    seconds = _timed_start(broker, topics[-1])
    bench.note(AFTER_KILL, broker.name, seconds)
    bench.note(BEYOND_READ, broker.name, seconds - read)
    told = _lines(broker, "recovery.")
    bench.say(
        f"{broker.name}: {seconds:.1f} s after a kill, one read takes {read:.1f} s, {len(told)} lines of progress"
    )


def _fill(broker: Broker, topics: list[str], total: int) -> None:
    rounds = max(1, total // FILLER // (len(topics) * PARTITIONS_OF_A_TOPIC))
    size = min(FILLER, total // (len(topics) * PARTITIONS_OF_A_TOPIC))
    for topic in topics:
        create_topic(broker.bootstrap, topic, PARTITIONS_OF_A_TOPIC)
        requests = [
            produce_frame(topic, b"x" * size, partition=partition) for partition in range(PARTITIONS_OF_A_TOPIC)
        ]
        with Connection(broker.bootstrap, timeout=60) as connection:
            for _ in range(rounds):
                for request in requests:
                    _acknowledged(connection, topic, request)


def _acknowledged(connection: Connection, topic: str, request: bytes, within: float = 30.0) -> None:
    """A new partition may have no leader for a moment."""
    deadline = time.monotonic() + within
    while error := produce_error(topic, connection.ask(request)):
        if time.monotonic() > deadline:
            raise RuntimeError(f"a record for {topic} was refused with error {error}")
        time.sleep(0.01)


def _timed_start(broker: Broker, topic: str) -> float:
    request = produce_frame(topic, b"first", partition=PARTITIONS_OF_A_TOPIC - 1)
    begin = time.monotonic()
    broker.start()
    while True:
        try:
            with Connection(broker.bootstrap, timeout=60) as connection:
                _acknowledged(connection, topic, request, within=120)
            return time.monotonic() - begin
        except OSError:
            if time.monotonic() - begin > 300:
                raise
            time.sleep(0.005)


def _one_read(folder: Path) -> float:
    """How long it takes to read every segment once, which is what a crash has to cost at most."""
    begin = time.monotonic()
    for path in sorted(folder.glob("*/*.log")):
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
    return time.monotonic() - begin


def _lines(broker: Broker, event: str) -> list[dict[str, object]]:
    """What ours has told about one kind of event."""
    found = []
    for line in (broker.folder / "log").read_text(errors="replace").splitlines():
        if line.startswith("{") and re.search(rf'"event": "{event}', line):
            found.append(json.loads(line))
    return found


# --- compaction ---------------------------------------------------------------------------------------------------


def _compaction(bench: Bench, broker: Broker) -> None:
    """Once alone, which is timed, and once beside a thousand produces a second."""
    total = 60_000_000 if bench.quick else 1_000_000_000
    seconds = 2.0 if bench.quick else 10.0
    if isinstance(broker, BrokerLite):
        _fill_dirty(broker, "alone", total // 2)
        _compact(broker, "alone")
        bench.note(COMPACTION, broker.name, _compacted_at(broker, "alone-0"))
    create_topic(broker.bootstrap, "beside", 1)
    _fill_dirty(broker, "kept", total)
    _p99(broker, seconds / 2)
    before = _p99(broker, seconds)
    _compact(broker, "kept")
    during = _p99(broker, seconds)
    bench.note(P99_BEFORE, broker.name, before)
    bench.note(P99_DURING, broker.name, during)
    bench.note(P99_FACTOR, broker.name, during / before)


def _fill_dirty(broker: Broker, topic: str, total: int) -> None:
    create_topic(broker.bootstrap, topic, 1)
    _configure(broker, topic, {"segment.bytes": str(min(64 << 20, total // 8)), "retention.ms": "-1"})
    requests = list(_keyed_requests(topic))
    with Connection(broker.bootstrap, timeout=60) as connection:
        for number in range(total // len(requests[0]) + 1):
            _acknowledged(connection, topic, requests[number % DISTINCT])


def _compact(broker: Broker, topic: str) -> None:
    """A topic that was filled while nothing was compacted; returns when the cleaner has a segment in hand."""
    _configure(broker, topic, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
    deadline = time.monotonic() + 60
    folder = broker.folder / "data" / f"{topic}-0"
    while not any(path.name.endswith((".cleaned", ".swap", ".deleted")) for path in folder.iterdir()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{broker.name} compacts nothing")
        time.sleep(0.002)


def _keyed_requests(topic: str) -> Iterator[bytes]:
    value = os.urandom(1000)
    for number in range(DISTINCT):
        records = [NewRecord(b"key-%012d" % (number * A_BATCH + at), value) for at in range(A_BATCH)]
        batch = build_batch(records, timestamp=int(time.time() * 1000))
        body = struct.pack(">hhii", -1, -1, 10_000, 1) + string(topic) + struct.pack(">iii", 1, 0, len(batch)) + batch
        yield frame(PRODUCE, 7, body)


def _configure(broker: Broker, topic: str, configs: dict[str, str]) -> None:
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in configs.items()]
    resource_ = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for done in admin.incremental_alter_configs([resource_]).values():
        done.result(30)


def _compacted_at(broker: Broker, partition: str) -> float:
    deadline = time.monotonic() + 120
    while not (told := [line for line in _lines(broker, "log.compacted") if line["partition"] == partition]):
        if time.monotonic() > deadline:
            raise RuntimeError("no round of compaction has ended")
        time.sleep(0.1)
    first = max(told, key=lambda line: int(str(line["bytes_before"])))
    return int(str(first["bytes_before"])) / float(str(first["seconds"])) / 1e6


def _p99(broker: Broker, seconds: float) -> float:
    """Milliseconds from the time a request was due, so that a broker which stalls cannot hide it."""
    request = produce_frame("beside", b"x" * 200)
    count = int(seconds * PER_SECOND)
    due: list[float] = []
    came: list[float] = []
    with Connection(broker.bootstrap, timeout=60) as connection:
        size = len(connection.ask(request)) + 4

        def listen() -> None:
            left = 0
            while len(came) < count:
                left += len(connection.socket.recv(65536))
                now = time.perf_counter()
                while left >= size:
                    left -= size
                    came.append(now)

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        begin = time.perf_counter()
        for number in range(count):
            due.append(begin + number / PER_SECOND)
            if (early := due[-1] - time.perf_counter()) > 0:
                time.sleep(early)
            connection.socket.sendall(request)
        listener.join(60)
    waits = [answered - asked for asked, answered in zip(due, came, strict=True)]
    return statistics.quantiles(waits, n=100)[98] * 1000


# --- reading what is on disk --------------------------------------------------------------------------------------


def _cold(bench: Bench, broker: Broker) -> None:
    records = 100_000 if bench.quick else 5_000_000
    create_topic(broker.bootstrap, "cold", 4)
    tools.produce(broker.bootstrap, "cold", records, "batch.size=65536", size=1000)
    if not _drop_caches():
        bench.say("the page cache stays: only root may drop it")
    bench.note(COLD, broker.name, tools.consume(broker.bootstrap, "cold", records))


def _drop_caches() -> bool:
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError:
        return False
    return True


# --- few descriptors ----------------------------------------------------------------------------------------------


@contextmanager
def _allowed(files: int) -> Iterator[None]:
    """What is started meanwhile may have that many files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _few_files(bench: Bench) -> None:
    """Ours alone: Kafka keeps three files open for each partition."""
    topics = [f"topic-{number}" for number in range(20 if bench.quick else 100)]
    broker = BrokerLite(bench.folder / str(time.monotonic_ns()))
    most = 0
    try:
        for _ in range(2):  # the second time on a folder that is there
            with _allowed(FEW_FILES):
                broker.start()
            begin = time.monotonic()
            for topic in topics:
                create_topic(broker.bootstrap, topic, PARTITIONS_OF_A_TOPIC)
                with Connection(broker.bootstrap, timeout=60) as connection:
                    for partition in range(PARTITIONS_OF_A_TOPIC):
                        _acknowledged(connection, topic, produce_frame(topic, b"x" * 200, partition=partition))
                most = max(most, len(os.listdir(f"/proc/{broker.pid}/fd")))
            rate = len(topics) * PARTITIONS_OF_A_TOPIC / (time.monotonic() - begin)
            broker.stop()
        bench.note(OPEN_FILES, broker.name, most)
        bench.note(MANY, broker.name, rate)
    finally:
        broker.stop()
        discard(broker.folder)
