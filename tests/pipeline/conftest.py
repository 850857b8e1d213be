"""One Spark session for all tests of the part, and one broker with a topic that has everything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from broker_lite.pipeline.session import CannotRun, check_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Half a gigabyte is fetched for it: only where somebody asks for what takes long.
collect_ignore = [] if os.environ.get("BROKER_LITE_HEAVY_CLIENTS") else ["test_newest.py"]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    try:
        check_here()
    except CannotRun as reason:
        pytest.skip(str(reason))
    from broker_lite.pipeline.session import session
    from tests.pipeline.connector import connector_jars

    place = tmp_path_factory.mktemp("spark")
    made = session(
        "tests",
        master="local[2]",
        jars=",".join(map(str, connector_jars())),
        conf={
            "spark.driver.memory": "1g",
            # Half the time to start, at the price of speed that no test needs.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(place / "warehouse"),
            "spark.local.dir": str(place / "local"),
        },
    )
    yield made
    made.stop()
