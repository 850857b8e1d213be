"""A process that Spark keeps for its tasks does not look through its modules behind each of them."""

from __future__ import annotations

import gc
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
