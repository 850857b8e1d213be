"""Apache Kafka's own jars, fetched by Maven once and kept in `.cache/jars`."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

CACHE = Path(__file__).parents[2] / ".cache" / "jars"


@cache
def jar(coordinates: str) -> Path:
    """The jar of `group:artifact:version`; without Maven the test is skipped, which a run that counts forbids."""
    _, artifact, version = coordinates.split(":")
    path = CACHE / f"{artifact}-{version}.jar"
    if path.exists():
        return path
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("Maven is missing: install Java 17 and Maven to compare with Apache Kafka's jars")
    CACHE.mkdir(parents=True, exist_ok=True)
    # Brought aside and then moved, so that two test processes never see half a jar.
    with TemporaryDirectory(dir=CACHE) as aside:
        command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={aside}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
        fetched = Path(aside) / path.name
        assert fetched.exists(), f"Maven did not bring {coordinates}: {done.stdout[-500:]}{done.stderr[-500:]}"
        fetched.replace(path)
    return path
