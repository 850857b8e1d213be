"""The jars of Spark's own Kafka connector, one by one: its parent POM names repositories that may be out of reach."""

from __future__ import annotations

from pathlib import Path

from tests.support.jars import jar

COORDINATES = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
)


def connector_jars() -> list[Path]:
    return [jar(coordinates) for coordinates in COORDINATES]
