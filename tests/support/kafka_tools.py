"""Apache Kafka's own command line tools, from the jars in Maven Central.

The jars are copied once into `.cache/`; a tool is a small script with the name it has in Kafka's distribution, so a
command from the README runs as it stands.  Needs Java and Maven.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.cache import alone

VERSION = "4.3.1"
ROOT = Path(__file__).parents[2]
HOME = ROOT / ".cache" / "apache-kafka" / VERSION
CLASSES = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
}
_NEEDED = (
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
    ("org.apache.logging.log4j", "log4j-core", "2.24.3"),
)
_QUIET = """status = error
rootLogger.level = warn
rootLogger.appenderRef.c.ref = C
appender.c.type = Console
appender.c.name = C
appender.c.target = SYSTEM_ERR
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = %d %p %c{1}: %m%n
"""


def jars() -> Path:
    """The folder with the jars of Kafka and what they need; the test is skipped where Java or Maven is missing."""
    missing = [program for program in ("java", "mvn") if not shutil.which(program)]
    if missing:
        pytest.skip(
            f"{' and '.join(missing)} not found; to have it: sudo apt-get install openjdk-17-jre-headless maven"
        )
    if not (HOME / "done").exists():
        with alone(HOME):
            if not (HOME / "done").exists():
                _bring()
    return HOME / "libs"


def _bring() -> None:
    HOME.mkdir(parents=True, exist_ok=True)
    (HOME / "pom.xml").write_text(_pom())
    (HOME / "log4j2.properties").write_text(_QUIET)
    copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={HOME / 'libs'}"]
    got = subprocess.run(["mvn", "-q", "-B", *copy], cwd=HOME, capture_output=True, text=True, check=False)
    assert got.returncode == 0, f"maven did not bring Kafka's jars\n{got.stdout}\n{got.stderr}"
    for second_logger in [*(HOME / "libs").glob("*reload4j*")]:
        second_logger.unlink()
    (HOME / "done").touch()


def scripts(folder: Path) -> Path:
    """Write `kafka-topics.sh` and the others into the folder."""
    libs = jars()
    folder.mkdir(parents=True, exist_ok=True)
    for name, java_class in CLASSES.items():
        settings = f"-Xmx256m -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile={HOME / 'log4j2.properties'}"
        script = folder / f"{name}.sh"
        script.write_text(f"#!/bin/sh\nexec java {settings} -cp '{libs}/*' {java_class} \"$@\"\n")
        script.chmod(0o755)
    return folder


def _pom() -> str:
    needed = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
        for group, artifact, version in _NEEDED
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>local</groupId><artifactId>tools</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{needed}</dependencies></project>"
    )
