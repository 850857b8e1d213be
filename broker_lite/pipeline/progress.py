"""How far a job is, for people and for machines; and a way to run tasks on Spark while telling it.

Progress goes to stderr: one line that is written over on a terminal, a line every few seconds elsewhere, a JSON object
a line if asked for.  The summary at the end goes to stdout.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TextIO, TypeVar

from broker_lite.pipeline.worker import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

MODES = ("auto", "plain", "json", "none")
_EVERY = {"line": 0.5, "plain": 5.0, "json": 1.0}


class Progress:
    def __init__(self, mode: str, job: str, *, out: TextIO | None = None) -> None:
        self._out = sys.stderr if out is None else out
        self._mode = ("line" if self._out.isatty() else "plain") if mode == "auto" else mode
        self._job = job
        self._begun = self._told = time.monotonic()
        self._line = 0

    def is_due(self) -> bool:
        """Whether `tell` would say anything now."""
        return self._mode != "none" and time.monotonic() - self._told >= _EVERY[self._mode]

    def tell(self, done: int, total: int, tasks: int, all_tasks: int, *, last: bool = False) -> None:
        """`done` of `total` offsets, `tasks` of `all_tasks` tasks."""
        if self._mode == "none" or not (last or self.is_due()):
            return
        now = self._told = time.monotonic()
        seconds = max(now - self._begun, 1e-6)
        rate = done / seconds
        left = (total - done) / rate if rate else None
        if self._mode == "json":
            facts = {"job": self._job, "done": done, "total": total, "rate": round(rate), "seconds": round(seconds, 1)}
            facts |= {"left_seconds": None if left is None else round(left, 1), "tasks": tasks, "all_tasks": all_tasks}
            print(json.dumps(facts), file=self._out, flush=True)
            return
        ahead = "" if left is None or last else f", {left:.0f} s left"
        text = f"{self._job}: {done:,} of {total:,} records, {rate:,.0f}/s, {tasks} of {all_tasks} tasks{ahead}"
        if self._mode == "line":
            end = "\n" if last else ""
            print(f"\r{text:<{self._line}}", end=end, file=self._out, flush=True)
            self._line = len(text)
        else:
            print(text, file=self._out, flush=True)


def run_tasks(
    spark: SparkSession,
    tasks: Sequence[T],
    work: Callable[[T], R],
    progress: Progress,
    *,
    size: Callable[[T], int],
    slots: int | None = None,
    watch: Callable[[], int] | None = None,
) -> list[R]:
    """`work` of each task, on Spark's workers, in the order of the tasks. What a worker raises is raised here.

    Spark hears from a task when it ends; where tasks are few and long, `watch` looks how much is done by now.
    """
    if not tasks:
        return []
    context = spark.sparkContext
    done, finished = context.accumulator(0), context.accumulator(0)
    total = sum(map(size, tasks))
    results: list[R] = []
    failed: list[BaseException] = []

    def counted(pair: tuple[T, int]) -> R:
        settle()
        result = work(pair[0])
        done.add(pair[1])
        finished.add(1)
        return result

    def collect() -> None:
        try:
            pairs = [(task, size(task)) for task in tasks]
            results.extend(context.parallelize(pairs, slots or len(tasks)).map(counted).collect())
        except BaseException as error:  # handed over to the thread that waits
            failed.append(error)

    thread = threading.Thread(target=collect, name="spark job", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.2)
            if progress.is_due():
                seen = 0 if watch is None else min(watch(), total)
                progress.tell(max(done.value, seen), total, finished.value, len(tasks))
    except KeyboardInterrupt:
        context.cancelAllJobs()
        raise
    if failed:
        raise failed[0]
    progress.tell(total, total, len(tasks), len(tasks), last=True)
    return results
