"""The same jobs on a cluster, whose executors share nothing with the driver but files and sockets."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from broker_lite.pipeline.session import CannotRun, check_here
from tests.pipeline import folders
from tests.support.sockets import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

QUIET = ["--conf", "spark.executor.memory=512m", "--conf", "spark.driver.memory=512m"]


@pytest.fixture(autouse=True, scope="module")
def needs_spark() -> None:
    try:
        check_here()
    except CannotRun as reason:
        pytest.skip(str(reason))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    written = [folders.Written(made, "orders", part) for part in range(4)]
    for one in written:
        for _ in range(20):
            one.add(50)
    return folders.finish(made, written)


def pipeline(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "broker_lite", "pipeline", *words],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, **environment},
    )


def rows(out: Path) -> list[tuple[int, int]]:
    table = ds.dataset(str(out), format="parquet").to_table(columns=["partition", "offset"])
    return sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


EVERYTHING = [(part, offset) for part in range(4) for offset in range(1000)]


def test_local_cluster(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = pipeline("archive", "--data", str(data), "--out", str(out), "--master", "local-cluster[2,1,1024]", *QUIET)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "archived 4,000 records in 4 files" in done.stdout
    assert rows(out) == EVERYTHING


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A standalone master and two workers of one core each, as the pip package brings them."""
    import pyspark

    home = Path(pyspark.__file__).parent
    port, web = free_port(), free_port()
    small = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    url = f"spark://127.0.0.1:{port}"
    environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    environment |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": small, "SPARK_NO_DAEMONIZE": "1"}
    start_class = str(home / "bin" / "spark-class")
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *words: str) -> Path:
        log = tmp_path / f"{name}.log"
        with log.open("wb") as said:
            command = [start_class, *words]
            started.append(subprocess.Popen(command, stdout=said, stderr=said, env=environment, cwd=tmp_path))
        return log

    deploy = "org.apache.spark.deploy"
    said = start(
        "master", f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web)
    )
    try:
        until(lambda: "Starting Spark master" in said.read_text(), within=60, what="the master")
        for number in (1, 2):
            words = ["--host", "127.0.0.1", "--cores", "1", "--memory", "600m", "--webui-port", str(free_port())]
            start(
                f"worker-{number}", f"{deploy}.worker.Worker", *words, "--work-dir", str(tmp_path / f"w{number}"), url
            )
        until(lambda: said.read_text().count("Registering worker") == 2, within=90, what="both workers")
        yield url
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(20)


def test_a_standalone_master_with_two_workers(data: Path, tmp_path: Path, master: str) -> None:
    out = tmp_path / "out"
    local = ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    there = ["--data", str(data), "--master", master, *QUIET, *local]
    done = pipeline("archive", *there, "--out", str(out))
    assert done.returncode == 0, done.stderr[-3000:]
    assert rows(out) == EVERYTHING
    used = [number for number in (1, 2) if any((tmp_path / f"w{number}").glob("app-*/*"))]
    assert used == [1, 2], "both workers took part"
    # The data source travels to the workers by the name of its class: they must find it without the driver.
    streamed = tmp_path / "streamed"
    words = ["--topic", "orders", "--out", str(streamed), "--checkpoint", str(tmp_path / "checkpoint")]
    done = pipeline("stream", *there, *words)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "streamed 4,000 records" in done.stdout
    assert rows(streamed) == EVERYTHING


def test_a_worker_without_a_module_is_named(data: Path, tmp_path: Path) -> None:
    """The workers' Python is a bare one: it has PySpark, from Spark itself, and nothing else."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    words = [
        "archive",
        "--data",
        str(data),
        "--out",
        str(tmp_path / "out"),
        "--master",
        "local-cluster[1,1,1024]",
        *QUIET,
    ]
    done = pipeline(*words, PYSPARK_PYTHON=str(bare), PYSPARK_DRIVER_PYTHON=sys.executable)
    assert done.returncode == 2, done.stderr[-3000:]
    assert "has no module" in done.stderr
