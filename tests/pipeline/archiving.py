"""python -m tests.pipeline.archiving DATA OUT FILE_BYTES: the archive job in one process, without Spark.

It is killed and started again many times, and a JVM for each would take longer than everything else.  What Spark does
is replaced by two threads that take the tasks in turn, so that two files are half-written when it is killed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar, cast
from unittest import mock

from broker_lite.pipeline import archive
from broker_lite.pipeline.options import read_options
from broker_lite.pipeline.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")


def in_threads(_: object, tasks: Sequence[T], work: Callable[[T], R], *_more: object, **_options: object) -> list[R]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, tasks))


def run(data: str, out: str, *, file_bytes: int = 64 << 20, clean: bool = False) -> archive.Summary:
    options = {"path": data, "kafka.isolation.level": "read_committed"}
    asked = read_options(options, streaming=False)
    nobody = cast("SparkSession", None)
    with mock.patch.object(archive, "run_tasks", in_threads):
        return archive.archive(nobody, asked, out, Progress("none", ""), file_bytes=file_bytes, clean=clean)


if __name__ == "__main__":
    print("ready", flush=True)
    sys.stdin.readline()
    run(sys.argv[1], sys.argv[2], file_bytes=int(sys.argv[3]))
