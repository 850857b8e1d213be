"""Transactions: commits a second, reading behind aborted ones, and what a long history of aborts costs a fetch.

Commits are of one record each, by confluent-kafka, alone and by eight producers in threads of one process.  The log
with aborts is written once by the same producers and read by Kafka's own tool with `read_committed`.  Fetch planning is
measured inside this process, on a partition of 100,000 transactions of which so many were aborted: processor time of
one read, which finds the batches, the last stable offset and the aborted transactions of what it gives back.
"""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

from confluent_kafka import Producer

from bench import tools
from bench.chapter import Bench, Broker
from bench.measures import OURS, Measure, cost_of
from bench.peer import cpu_seconds
from bench.raw import create_topic
from broker_lite.ids import Offset, TopicId, TopicPartition
from broker_lite.log.disk import RealDisk
from broker_lite.partition.partition import Partition, PartitionSettings
from broker_lite.records.batch import walk
from broker_lite.records.build import NewRecord, build_batch

TITLE = "Transactions"
ALONE = Measure("commits of one record, one producer", "commits/s", 1.0)
EIGHT = Measure("commits of one record, eight producers", "commits/s", 1.0)
READ = Measure("read_committed over a log with 30 % aborted", "records/s", 1.0)
PLANNING = "Planning a read_committed fetch, by aborted transactions"
ABORTED_OF_TEN = 3
A_TRANSACTION = 1_000
SAMPLES = 15


def run(bench: Bench) -> None:
    seconds = 1.0 if bench.quick else 10.0
    for broker in bench.contenders():
        create_topic(broker.bootstrap, "one", 1)
        create_topic(broker.bootstrap, "many", 8)
        create_topic(broker.bootstrap, "mixed", 1)
        _commits(broker, 1, seconds / 2)  # Kafka compiles what it needs
        for measure, producers in ((ALONE, 1), (EIGHT, 8)):
            before = cpu_seconds(broker.pid)
            done, took = _commits(broker, producers, seconds)
            bench.note(measure, broker.name, done / took)
            bench.note(cost_of(measure), broker.name, (cpu_seconds(broker.pid) - before) / done * 1e6)
        kept = _mix(broker, 20 if bench.quick else 1_000)
        bench.note(READ, broker.name, _read(broker, kept, bench.folder))
    transactions = 2_000 if bench.quick else 100_000
    for count in (10, 100, 1_000, 10_000, 100_000):
        if count <= transactions:
            bench.say(f"planning a fetch behind {count:,} aborted transactions")
            for micros in _planning(bench.folder / "planning", transactions, count):
                bench.grow(PLANNING, "aborted transactions", "µs of processor time for a read", OURS, count, micros)
    bench.flat_within(PLANNING, 1.2)


# ---- commits


def _producer(bootstrap: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(60)
    return producer


def _commits(broker: Broker, producers: int, seconds: float) -> tuple[int, float]:
    """How many transactions of one record were committed, and in what time."""
    made = [_producer(broker.bootstrap, f"of-{producers}-{number}") for number in range(producers)]
    topic = "one" if producers == 1 else "many"
    done = [0] * producers
    begin = time.monotonic()

    def work(number: int) -> None:
        producer = made[number]
        while time.monotonic() - begin < seconds:
            producer.begin_transaction()
            producer.produce(topic, b"x" * 100, partition=number)
            producer.commit_transaction(60)
            done[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(producers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done), time.monotonic() - begin


# ---- reading behind aborts


def _mix(broker: Broker, transactions: int) -> int:
    """Transactions of a thousand records, three of ten aborted; returns how many records are left."""
    producer = _producer(broker.bootstrap, "mixer")
    kept = 0
    for number in range(transactions):
        producer.begin_transaction()
        for _ in range(A_TRANSACTION):
            producer.produce("mixed", b"x" * 200, partition=0)
        if number % 10 < ABORTED_OF_TEN:
            producer.flush(60)  # or they would never be sent, and there were nothing to leave out
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
            kept += A_TRANSACTION
    return kept


def _read(broker: Broker, records: int, folder: Path) -> float:
    settings = folder / "committed.properties"
    settings.write_text("isolation.level=read_committed\nauto.offset.reset=earliest\n")
    said = tools.run(
        tools.CONSUMER, "--bootstrap-server", broker.bootstrap, "--topic", "mixed", "--num-records", str(records),
        "--hide-header", "--command-config", str(settings),
    )  # fmt: skip
    fields = [field.strip() for field in said.strip().splitlines()[-1].split(",")]
    if len(fields) < 6 or int(fields[4]) != records:
        raise RuntimeError(f"ConsumerPerformance did not read {records} records, no more and no fewer: {said[-500:]}")
    return float(fields[5])


# ---- planning


def _planning(folder: Path, transactions: int, aborted: int) -> list[float]:
    """Microseconds of processor time for a read, several times: of logs that differ in how many they abort."""
    now_ms = 1_714_000_000_000
    partition = Partition.open(
        TopicPartition("t", 0), TopicId(bytes(range(16))), folder, RealDisk(), PartitionSettings(), now_ms=now_ms
    )
    try:
        for number in range(transactions):
            data = build_batch(
                [NewRecord(None, b"x" * 200)],
                timestamp=now_ms,
                producer_id=1,
                producer_epoch=0,
                base_sequence=number,
                transactional=True,
            )
            partition.append_internal(data, now_ms=now_ms)
            commits = number % (transactions // aborted) != 0
            partition.append_marker(1, 0, commit=commits, coordinator_epoch=0, now_ms=now_ms)
        assert len(partition.log.aborted.entries) >= aborted
        _read_on(partition)
        return [_read_on(partition) for _ in range(SAMPLES)]
    finally:
        partition.close(clean=False)
        shutil.rmtree(folder, ignore_errors=True)


def _read_on(partition: Partition) -> float:
    """A thousand fetches of 4 KiB, each from where the one before ended, as a consumer does, from the middle on."""
    offset = partition.offsets.end // 2
    took, reads = 0.0, 0
    while reads < 1_000 and offset < partition.offsets.stable:
        begin = time.process_time()
        read = partition.read(Offset(offset), max_bytes=4_096, committed=True, at_least_one=True)
        took += time.process_time() - begin
        assert read.records is not None
        offset = max(batch.next_offset for batch in walk(read.records.read_all()))
        read.records.release()
        reads += 1
    return took / reads * 1e6
