"""Kafka's own performance tools, run as people run them, and their figures read from what they print."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from tests.support import kafka_tools

PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER = "org.apache.kafka.tools.ConsumerPerformance"
LATENCY = "org.apache.kafka.tools.EndToEndLatency"
SECONDS = 600


@dataclass(slots=True, frozen=True)
class Latency:
    p50_ms: float
    p99_ms: float


def run(tool: str, *arguments: str) -> str:
    quiet = f"-Dlog4j2.configurationFile={kafka_tools.HOME / 'log4j2.properties'}"
    command = ["java", "-Xmx512m", quiet, "-cp", f"{kafka_tools.jars()}/*", tool, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{tool} ended with {done.returncode}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return done.stdout


def produce(
    bootstrap: str, topic: str, records: int, *properties: str, size: int = 200, in_transactions_of_ms: int = 0
) -> float:
    """Records a second, all of them, as fast as they are acknowledged."""
    how = ["--num-records", str(records), "--record-size", str(size), "--throughput", "-1"]
    if in_transactions_of_ms:
        how += ["--transaction-duration-ms", str(in_transactions_of_ms)]
    where = ["--bootstrap-server", bootstrap, "--topic", topic, "--reporting-interval", "60000"]
    said = run(PRODUCER, *where, *how, "--command-property", "acks=all", *properties)
    found = re.findall(rf"^{records} records sent, ([\d.]+) records/sec", said, re.MULTILINE)
    if not found:
        raise RuntimeError(f"ProducerPerformance said no total: {said[-500:]}")
    return float(found[-1])


def consume(bootstrap: str, topic: str, records: int, *how: str) -> float:
    """Records a second from joining a group to the last one."""
    where = ["--bootstrap-server", bootstrap, "--topic", topic]
    said = run(CONSUMER, *where, *how, "--num-records", str(records), "--hide-header")
    fields = [field.strip() for field in said.strip().splitlines()[-1].split(",")]
    if len(fields) < 6 or int(fields[4]) < records:
        raise RuntimeError(f"ConsumerPerformance did not read {records} records: {said[-500:]}")
    return float(fields[5])


def end_to_end(bootstrap: str, topic: str, records: int, *, size: int = 200) -> Latency:
    said = run(LATENCY, bootstrap, topic, str(records), "all", str(size))
    found = re.search(r"50th = ([\d.]+), 99th = ([\d.]+)", said)
    if found is None:
        raise RuntimeError(f"EndToEndLatency said no percentiles: {said[-500:]}")
    return Latency(float(found[1]), float(found[2]))
