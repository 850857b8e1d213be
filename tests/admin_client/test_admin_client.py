"""Kafka's own Java clients ask Apache Kafka and us the same: every method of Admin, and the rarer calls of the others.

The program in `program/` tells what it heard as facts, one per line. A fact that differs on purpose begins with one of
the words below, which are explained in `docs/differences.md`.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import kafka_tools
from tests.support.broker import BrokerProcess
from tests.support.kafka_server import KafkaServer

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

PROGRAM = Path(__file__).parent / "program"
EXPLAINED = (Path(__file__).parents[2] / "docs" / "differences.md").read_text()
PATIENCE = 300.0
SETTINGS = {
    "num.partitions": "4",
    # Records bear times of long ago, and Kafka looks for old ones half a minute after its start.
    "log.retention.ms": "-1",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
}
DIFFERENT = {
    "a key that is not served": (
        "unregisterBroker",
        "addRaftVoter",
        "removeRaftVoter",
        "createDelegationToken",
        "renewDelegationToken",
        "expireDelegationToken",
        "describeDelegationToken",
        "describeShareGroups",
        "classic group with a member describeShareGroups",
        "consumer group with a member describeShareGroups",
        "alterShareGroupOffsets",
        "listShareGroupOffsets",
        "deleteShareGroupOffsets",
        "deleteShareGroups",
        "describeStreamsGroups",
    ),
    "a feature that is not there": (
        "describeFeatures finalized[eligible.leader.replicas.version]",
        "describeFeatures finalized[share.version]",
        "describeFeatures finalized[streams.version]",
        "describeFeatures supported[eligible.leader.replicas.version]",
        "describeFeatures supported[share.version]",
        "describeFeatures supported[streams.version]",
    ),
    "a text": (
        "describeConfigs of none",
        "producer.send too much",
        "producer.send when fenced",
        "consumer refused a pattern of the broker",
    ),
    "a default, and a key of ours": (
        "describeConfigs of GROUP[ConfigResource(type=GROUP, name='configured')][consumer.assignment.interval.ms]",
        "describeConfigs[ConfigResource(type=TOPIC, name='topics-plain')][broker.lite.strict]",
    ),
    "a record that was deleted": ("listOffsets largest time of nothing",),
}


def compiled(folder: Path) -> str:
    """The class path of the program."""
    jars = f"{kafka_tools.jars()}/*"
    if shutil.which("javac") is None:
        pytest.skip("javac not found; to have it: sudo apt-get install openjdk-17-jdk-headless")
    command = ["javac", "-nowarn", "-cp", jars, "-d", str(folder), *map(str, sorted(PROGRAM.glob("*.java")))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return f"{folder}:{jars}"


def facts(class_path: str, bootstrap: str) -> dict[str, str]:
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    quiet = f"-Dlog4j2.configurationFile={kafka_tools.HOME / 'log4j2.properties'}"
    command = ["java", *options, quiet, "-cp", class_path, "Asking", bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return dict(line.split("\t", 1) for line in done.stdout.splitlines())


def belongs(about: str, word: str) -> bool:
    return about.startswith(word) and about[len(word) :][:1] in ("", "[", ".")


def compare(theirs: Mapping[str, str], ours: Mapping[str, str]) -> list[str]:
    words = [word for group in DIFFERENT.values() for word in group]
    different = [about for about in {**theirs, **ours} if theirs.get(about) != ours.get(about)]
    wrong = [
        f"{about}\n  Kafka {theirs.get(about)}\n  ours  {ours.get(about)}"
        for about in different
        if not any(belongs(about, word) for word in words)
    ]
    same = [word for word in words if not any(belongs(about, word) for about in different)]
    return wrong + [f"{word}: no difference any more" for word in same]


def test_kafkas_java_clients_hear_the_same_from_both_brokers(tmp_path: Path) -> None:
    (tmp_path / "classes").mkdir()
    class_path = compiled(tmp_path / "classes")
    ours = BrokerProcess(tmp_path / "ours", [part for pair in SETTINGS.items() for part in ("--set", "=".join(pair))])
    with ours, KafkaServer(tmp_path / "kafka", SETTINGS) as kafka, ThreadPoolExecutor(2) as pool:
        at_kafka, at_ours = pool.map(lambda bootstrap: facts(class_path, bootstrap), [kafka.bootstrap, ours.bootstrap])
    assert at_ours["methods of Admin that nobody asked"] == "[]"
    assert len(at_ours) > 500
    wrong = compare(at_kafka, at_ours)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_they_hear_differently_is_explained(name: str) -> None:
    assert f"| {name} |" in EXPLAINED
