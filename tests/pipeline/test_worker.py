"""A process that Spark keeps for its tasks does not look through its modules behind each of them, and ends quietly."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from broker_lite.pipeline.progress import Progress, run_tasks
from broker_lite.pipeline.worker import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_what_a_worker_loaded_is_set_aside_before_its_first_task(spark: SparkSession) -> None:
    def set_aside(_: int) -> int:
        import gc

        return gc.get_freeze_count()

    counts = run_tasks(spark, [0, 1], set_aside, Progress("none", ""), size=lambda _: 1)
    assert min(counts) > 10_000


def test_what_is_made_afterwards_is_still_collected() -> None:
    class Cell:
        here: object = None

    try:
        settle()
        cell = Cell()
        cell.here = cell
        del cell
        assert gc.collect() > 0
    finally:
        gc.unfreeze()
        settle.cache_clear()


AS_SPARK_DOES = """
import socket
import sys

from broker_lite.pipeline.worker import end_quietly
from pyspark import daemon

here, java = socket.socketpair()
java.close()
if sys.argv.pop() == "taught":
    end_quietly()
try:
    here.send(b"to nobody")
except BrokenPipeError:
    print("an error as always", flush=True)
daemon.worker(here, True)
"""


@pytest.mark.spark
@pytest.mark.parametrize(("how", "quiet"), [("taught", True), ("as it is", False)])
def test_a_process_on_which_java_has_hung_up_ends_without_a_word(how: str, quiet: bool) -> None:
    environment = {"PYTHON_UNIX_DOMAIN_ENABLED": "True", "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1"}
    pytest.importorskip("pyspark")
    ran = subprocess.run(
        [sys.executable, "-c", AS_SPARK_DOES, how],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == "an error as always\n"
    assert (ran.returncode == 0 and not ran.stderr) is quiet, ran.stderr
    assert ("BrokenPipeError" in ran.stderr) is not quiet
