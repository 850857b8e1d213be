"""A Kafka Streams word count, exactly once, whose process and whose broker are killed: the counts are exact.

With the cache off every word adds one to its count, so the committed counts of a word must be 1, 2, 3 … without a gap
and without a repeat, in the order of the log.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support import kafka_tools
from tests.support.broker import BrokerProcess
from tests.support.jars import jar
from tests.transactions.reading import committed, create

pytestmark = [pytest.mark.clients, pytest.mark.kafka, pytest.mark.slow]
SOURCE = Path(__file__).with_name("streams") / "WordCount.java"
JARS = ("org.apache.kafka:kafka-streams:4.3.1", "org.rocksdb:rocksdbjni:10.1.3")
WORDS = ("one", "fish", "two", "red", "blue", "old", "new", "car", "star")
LINES = 3000
PARTITIONS = 2


def compiled(folder: Path) -> str:
    """The class path of the program."""
    path = ":".join([f"{kafka_tools.jars()}/*", *(str(jar(coordinates)) for coordinates in JARS), str(folder)])
    command = ["javac", "-nowarn", "-cp", path, "-d", str(folder), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return path


def start(path: str, bootstrap: str, folder: Path) -> subprocess.Popen[bytes]:
    quiet = f"-Dlog4j2.configurationFile={kafka_tools.HOME / 'log4j2.properties'}"
    command = ["java", "-Xmx384m", "-XX:TieredStopAtLevel=1", quiet, "-cp", path, "WordCount", bootstrap]
    with (folder / "streams.log").open("ab") as out:
        return subprocess.Popen([*command, str(folder / "state")], stdout=out, stderr=out)


@pytest.mark.timeout(400)
def test_words_are_counted_once_whoever_is_killed(broker_process: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    path = compiled(tmp_path)
    broker = broker_process(
        *("--set", "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000"),
        *("--set", "group.initial.rebalance.delay.ms=0"),
    )
    for topic in ("lines", "counts"):
        create(broker.bootstrap, topic, PARTITIONS)
    dice = random.Random(7)
    expected: Counter[str] = Counter()
    source = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})

    def write(lines: int) -> None:
        for number in range(lines):
            line = dice.choices(WORDS, k=3)
            expected.update(line)
            source.produce("lines", key=b"%d" % number, value=" ".join(line).encode())
        assert source.flush(60) == 0

    running = start(path, broker.bootstrap, tmp_path)
    try:
        write(LINES // 3)
        _until_counted(broker, tmp_path, more_than=0)
        running.kill()
        running.wait()
        running = start(path, broker.bootstrap, tmp_path)
        write(LINES // 3)
        _until_counted(broker, tmp_path, more_than=LINES // 3)
        broker.restart(kill=True)
        write(LINES - 2 * (LINES // 3))
        _until_counted(broker, tmp_path, more_than=sum(expected.values()) - 1)
    finally:
        running.kill()
        running.wait()
    told: dict[str, list[int]] = defaultdict(list)
    for key, value in committed(broker.bootstrap, "counts", PARTITIONS):
        assert key is not None
        assert value is not None
        told[key.decode()].append(int(value))
    assert {word: counts[-1] for word, counts in told.items()} == expected
    for word, counts in told.items():
        assert counts == list(range(1, expected[word] + 1)), word


def _until_counted(broker: BrokerProcess, folder: Path, *, more_than: int) -> None:
    deadline = time.monotonic() + 120
    while len(found := committed(broker.bootstrap, "counts", PARTITIONS)) <= more_than:
        log = folder / "streams.log"
        assert time.monotonic() < deadline, f"{len(found)} of {more_than + 1} counted\n{log.read_text()[-5000:]}"
