"""What an append costs inside the broker, by the number of partitions and by the size of the log.

Measured in this process on `Partition.append`, the whole way from a client's bytes to the written segment, with no
socket between.  Batches hold one record of 200 bytes, the smallest work and so the hardest test of being flat.

What is compared must differ in one thing only:
- partitions are those of one topic in one broker: one disk, one object of settings;
- all points are there before the first is measured, and are measured in turns, so that a machine that is slow for a
  while is slow for all of them.  Of the passes the lower quartile counts: whatever disturbs only adds;
- every file has its first pages, and no two begin a page or an index entry in step: over a pass each point begins as
  many of them;
- what filled a log is on the platter before anything is measured beside it.

A file system notes the time of a change once per tick of the kernel, 4 ms here, and ext4 writes it to its journal:
2 µs.  A single file that is appended to without a pause pays that at every 400th append, 2,000 files in turn pay it
at each, as one file would that is appended to every 5 ms.  What 2,000 partitions cost a client is judged over the
socket, in the chapter of growth; here it is shown what becomes of that inside, with files on the disk and with files in
memory (/dev/shm), where a time costs nothing.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
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
NOTE = (
    "lower quartile of passes that take turns over the points; ext4 journals a file's time once per kernel tick, "
    "which a file pays that is written now and then and a single busy one does not"
)
COST = "µs of processor time"
PASSES = 25
FILLER = 900_000
WARM_UP, APART = 30, 16
"""Appends to each partition before anything is measured; some get up to so many more, so that they are not in step."""
IN_MEMORY = Path("/dev/shm")


def _batch(size: int) -> bytes:
    return build_batch([NewRecord(None, b"x" * size)], timestamp=int(time.time() * 1000))


def _open(folder: Path, count: int) -> list[Partition]:
    """One topic with so many partitions, as a broker has it, warm."""
    now, disk, settings, topic_id = int(time.time() * 1000), RealDisk(), PartitionSettings(), new_topic_id()
    opened = []
    for number in range(count):
        place = TopicPartition("flat", number)
        partition = Partition.open(place, topic_id, folder / str(place), disk, settings, now_ms=now)
        _append([partition], WARM_UP + number % APART)
        opened.append(partition)
    return opened


def _append(partitions: Sequence[Partition], appends: int, batch: bytes | None = None) -> float:
    """Microseconds of processor time for each of so many appends to the partitions in turn."""
    now, batch = int(time.time() * 1000), batch or _batch(200)
    views = [memoryview(bytearray(batch)) for _ in range(appends)]
    count = len(partitions)
    begin = time.process_time()
    for number, view in enumerate(views):
        partitions[number % count].append(view, api_version=9, now_ms=now)
    return (time.process_time() - begin) / appends * 1e6


def _compare(points: dict[float, list[Partition]], appends: int) -> dict[float, float]:
    """What an append costs at each point."""
    costs: dict[float, list[float]] = {x: [] for x in points}
    for number in range(PASSES + 1):
        for x, partitions in points.items():
            cost = _append(partitions, appends)
            if number:  # the first pass warms up
                costs[x].append(cost)
    for partitions in points.values():
        for partition in partitions:
            partition.close(clean=False)
    return {x: statistics.quantiles(taken, n=4)[0] for x, taken in costs.items()}


def run(bench: Bench) -> None:
    counts, appends = ((1, 200), 1_000) if bench.quick else ((1, 10, 100, 2_000), 2_000)
    if IN_MEMORY.is_dir() and os.access(IN_MEMORY, os.W_OK):
        with tempfile.TemporaryDirectory(prefix="bench-", dir=IN_MEMORY) as folder:
            _over_partitions(bench, "Append to files in memory, by number of partitions", Path(folder), counts, appends)
    _over_partitions(bench, "Append, by number of partitions", bench.folder / "partitions", counts, appends)
    title = "Append, by size of the log"
    _over_size(bench, title, bench.folder / "size", (0, 0.5) if bench.quick else (0, 1, 5), appends)
    bench.flat_within(title, 1.2)


def _over_partitions(bench: Bench, title: str, folder: Path, counts: Sequence[int], appends: int) -> None:
    """Cost of an append with that many partitions open and written in turn."""
    bench.say(f"append cost with {counts[0]:,} to {counts[-1]:,} partitions in {folder}")
    points = {float(count): _open(folder / str(count), count) for count in counts}
    for count, cost in _compare(points, appends).items():
        bench.grow(title, "partitions", COST, OURS, count, cost)
    shutil.rmtree(folder, ignore_errors=True)


def _over_size(bench: Bench, title: str, folder: Path, gigabytes: Sequence[float], appends: int) -> None:
    """Cost of an append to a log that holds that much already."""
    points, filler = {}, _batch(FILLER)
    for wanted in gigabytes:
        bench.say(f"a log of {wanted:g} GB")
        [partition] = points[float(wanted)] = _open(folder / f"{wanted:g}", 1)
        while partition.log.size_bytes < wanted * 1e9:
            _append([partition], 1, filler)
        partition.log.flush()
    bench.say("append cost by size of the log")
    for wanted, cost in _compare(points, appends).items():
        bench.grow(title, "gigabytes", COST, OURS, wanted, cost)
    shutil.rmtree(folder)
