"""A topic as a stream: to the console or to Parquet, as it is or counted per key in windows of time."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker_lite.pipeline import plan
from broker_lite.pipeline.errors import WrongOption
from broker_lite.pipeline.options import read_options
from broker_lite.pipeline.session import spark_errors, told_by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WINDOW = re.compile(r"(\d+)\s*(ms|s|m|h|d)")
_WORDS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration(text: str) -> tuple[str, float]:
    """`1m` -> what Spark calls it, and its seconds."""
    found = _WINDOW.fullmatch(text.strip())
    if not found or int(found[1]) == 0:
        raise WrongOption(f"{text!r} is no length of time; write 500ms, 10s, 1m, 2h or 1d")
    return f"{found[1]} {_WORDS[found[2]]}", int(found[1]) * _SECONDS[found[2]]


def check(options: Mapping[str, str]) -> None:
    """What is wrong with the options, or a folder or topic that is not there, is told before Spark is started."""
    asked = read_options(options, streaming=True)
    with plan.place_of(asked).opened() as place:
        plan.choose(place, asked)


def source(spark: SparkSession, kind: str, options: Mapping[str, str]) -> DataFrame:
    reader = spark.readStream.format("kafka" if kind == "kafka" else "broker_lite")
    return reader.options(**options).load()


def windowed(frame: DataFrame, window: str, lateness: str) -> DataFrame:
    """How many records of each key in each window, and how many a second."""
    from pyspark.sql import functions as f

    name, seconds = duration(window)
    late, _ = duration(lateness)
    counted = (
        frame.withWatermark("timestamp", late)
        .groupBy(f.window("timestamp", name), f.col("topic"), f.col("key").cast("string").alias("key"))
        .agg(f.count("*").alias("records"), f.sum(f.length("value")).alias("bytes"))
    )
    return counted.select(
        f.col("window.start").alias("begin"),
        f.col("window.end").alias("end"),
        "topic",
        "key",
        "records",
        (f.col("records") / seconds).alias("rate"),
        "bytes",
    )


def run(
    frame: DataFrame,
    *,
    out: str | None,
    checkpoint: str | None,
    is_windowed: bool,
    every: str | None,
    progress: str,
) -> int:
    """Run until it ends (without `every`) or somebody ends it; how many records went through."""
    writer = frame.writeStream
    if out is None:
        if not is_windowed:
            frame = frame.selectExpr(
                "topic",
                "partition",
                "offset",
                "timestamp",
                "CAST(key AS STRING) AS key",
                "CAST(value AS STRING) AS value",
            )
            writer = frame.writeStream
        writer = writer.format("console").option("truncate", "false").option("numRows", "50")
        writer = writer.outputMode("update" if is_windowed else "append")
    else:
        writer = writer.format("parquet").option("path", out).outputMode("append")
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", checkpoint)
    if every is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=duration(every)[0])
    try:
        query = writer.start()
        return _follow(query, progress)
    except spark_errors() as error:
        raise told_by(error) from None


def _follow(query: object, progress: str) -> int:
    import sys

    from pyspark.sql.streaming.query import StreamingQuery

    assert isinstance(query, StreamingQuery)
    seen, last = 0, -1
    begun = time.monotonic()
    try:
        while True:
            ended = query.awaitTermination(1)
            for told in query.recentProgress:
                if told["batchId"] <= last:
                    continue
                last, seen = told["batchId"], seen + told["numInputRows"]
                if progress == "json":
                    facts = {"job": "stream", "batch": last, "records": told["numInputRows"], "all": seen}
                    print(json.dumps(facts), file=sys.stderr, flush=True)
                elif progress != "none":
                    rate = seen / max(time.monotonic() - begun, 1e-6)
                    print(f"stream: batch {last}, {seen:,} records, {rate:,.0f}/s", file=sys.stderr, flush=True)
            if ended:
                return seen
    except KeyboardInterrupt:
        query.stop()
        return seen
