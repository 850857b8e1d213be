"""What an append costs inside the broker: flat in the number of partitions, flat in the size of the log.

Measured in this process on `Partition.append`, the whole way from a client's bytes to the written segment, with no
socket between.  Batches hold one record of 200 bytes, the smallest work and so the hardest test of being flat.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from bench.chapter import Bench
from bench.measures import OURS
from broker_lite.ids import TopicPartition, new_topic_id
from broker_lite.log.disk import RealDisk
from broker_lite.partition.partition import Partition, PartitionSettings
from broker_lite.records.build import NewRecord, build_batch

TITLE = "What an append costs inside the broker"
SAMPLES = 9
FILLER = 900_000
WARM_UP_EACH, WARM_UP_ALL = 30, 4_000


def _batch(size: int) -> bytes:
    return build_batch([NewRecord(None, b"x" * size)], timestamp=int(time.time() * 1000))


def _open(folder: Path, number: int) -> Partition:
    now = int(time.time() * 1000)
    place, path = TopicPartition("flat", number), folder / f"flat-{number}"
    path.mkdir(parents=True, exist_ok=True)
    return Partition.open(place, new_topic_id(), path, RealDisk(), PartitionSettings(), now_ms=now)


def _cost(partitions: Sequence[Partition], appends: int) -> float:
    """Microseconds of processor time for an append: the median of several rounds, each over all partitions in turn."""
    now, batch = int(time.time() * 1000), _batch(200)
    costs = []
    for _ in range(SAMPLES):
        views = [memoryview(bytearray(batch)) for _ in range(appends)]
        begin = time.process_time()
        for number, view in enumerate(views):
            partitions[number % len(partitions)].append(view, api_version=9, now_ms=now)
        costs.append((time.process_time() - begin) / appends * 1e6)
    return statistics.median(costs)


def _warm_up(partitions: Sequence[Partition]) -> None:
    """A file's first appends pay for its first pages; what is asked is the cost of those that follow."""
    now, batch = int(time.time() * 1000), _batch(200)
    for _ in range(max(WARM_UP_EACH, WARM_UP_ALL // len(partitions))):
        for partition in partitions:
            partition.append(memoryview(bytearray(batch)), api_version=9, now_ms=now)


def run(bench: Bench) -> None:
    appends = 2_000 if bench.quick else 4_000
    _over_partitions(bench, (1, 200) if bench.quick else (1, 10, 100, 2_000), appends)
    _over_size(bench, (0, 0.5) if bench.quick else (0, 1, 5), appends)


def _over_partitions(bench: Bench, counts: Sequence[int], appends: int) -> None:
    """Cost of an append with that many partitions open and written in turn."""
    title = "Append, by number of partitions"
    for count in counts:
        bench.say(f"append cost with {count:,} partitions")
        folder = bench.folder / f"{count}-partitions"
        partitions = [_open(folder, number) for number in range(count)]
        _warm_up(partitions)
        bench.grow(title, "partitions", "µs of processor time", OURS, count, _cost(partitions, appends))
        for partition in partitions:
            partition.close(clean=False)
        shutil.rmtree(folder)
    bench.flat_within(title, 1.2)


def _over_size(bench: Bench, gigabytes: Sequence[float], appends: int) -> None:
    """Cost of an append to a log that holds that much already."""
    title = "Append, by size of the log"
    folder, now = bench.folder / "size", int(time.time() * 1000)
    partition = _open(folder, 0)
    _warm_up([partition])
    for wanted in gigabytes:
        bench.say(f"append cost after {wanted:g} GB")
        while partition.log.size_bytes < wanted * 1e9:
            partition.append(memoryview(bytearray(_batch(FILLER))), api_version=9, now_ms=now)
        bench.grow(title, "gigabytes", "µs of processor time", OURS, wanted, _cost([partition], appends))
    partition.close(clean=False)
    shutil.rmtree(folder)
    bench.flat_within(title, 1.2)
