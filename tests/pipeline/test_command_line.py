"""The jobs as people start them: the command line in a process of its own, spark-submit, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from broker_lite.cli import certs
from broker_lite.pipeline.session import CannotRun, check_here
from tests.pipeline import filling, folders
from tests.support.broker import BrokerProcess
from tests.support.sockets import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

SMALL = ["--master", "local[1]", "--conf", "spark.driver.memory=512m"]
JOB = "import sys\nfrom broker_lite.cli import main\nsys.exit(main(['pipeline', *sys.argv[1:]]))\n"


@pytest.fixture(autouse=True, scope="module")
def needs_spark() -> None:
    try:
        check_here()
    except CannotRun as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as process:
        filling.create(process.bootstrap, "orders")
        filling.fill(process.bootstrap, "orders", count=100)
        filling.wait_for_checkpoint(process.data, process.bootstrap, "orders")
        yield process


def pipeline(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "broker_lite", "pipeline", *words, *SMALL]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def rows(out: Path) -> list[tuple[int, int]]:
    files = [str(file) for file in out.glob("*.parquet")]
    if not files:
        return []
    found = ds.dataset(files, format="parquet").to_table(columns=["partition", "offset"])
    return sorted(zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True))


def test_an_archive_follows_its_topic_until_somebody_interrupts_it(broker: BrokerProcess, tmp_path: Path) -> None:
    filling.create(broker.bootstrap, "followed")
    out = tmp_path / "out"
    command = [sys.executable, "-m", "broker_lite", "pipeline", "archive", "--data", broker.data.as_uri()]
    command += [
        "--topic",
        "followed",
        "--out",
        out.as_uri(),
        "--follow",
        "--every",
        "0.2",
        "--progress",
        "json",
        *SMALL,
    ]
    with (tmp_path / "said").open("wb") as told:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=told, text=True, start_new_session=True)
    try:
        for round_ in (1, 2):
            filling.fill(broker.bootstrap, "followed", count=50)
            until(lambda: len(rows(out)) >= 100 * round_, within=180, what="the rows")  # noqa: B023
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == 0, (tmp_path / "said").read_text()
    assert json.loads(said)["records"] == 200
    assert rows(out) == [(part, offset) for part in (0, 1) for offset in range(100)]


def test_an_archive_is_replayed_and_streamed_by_the_command_line(broker: BrokerProcess, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    done = pipeline("archive", "--bootstrap", broker.bootstrap, "--topic", "orders", "--out", str(archive))
    assert done.returncode == 0, done.stderr
    assert "archived 200 records in 2 files" in done.stdout
    assert "archive: 200 of 200 records" in done.stderr
    done = pipeline("replay", "--archive", str(archive), "--to", broker.bootstrap, "--to-topic", "again")
    assert done.returncode == 0, done.stderr
    assert "replayed 200 records of 2 partitions" in done.stdout
    out = tmp_path / "out"
    words = ["--out", str(out), "--checkpoint", str(tmp_path / "checkpoint"), "--progress", "json"]
    for seen in (200, 0):
        done = pipeline("stream", "--bootstrap", broker.bootstrap, "--topic", "again", *words)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {"records": seen}
    assert rows(out) == [(part, offset) for part in (0, 1) for offset in range(100)]
    done = pipeline("stream", "--bootstrap", broker.bootstrap, "--topic", "orders", *words)
    assert done.returncode == 2
    told = "the checkpoint is of another query: it knows again-0, which is not read here"
    assert done.stderr.splitlines()[-1] == f"broker-lite: {told}"
    assert "Traceback" not in done.stderr


def test_an_archive_of_a_damaged_log_is_one_line_and_no_file_that_a_reader_sees(tmp_path: Path) -> None:
    broken = folders.idempotent(tmp_path / "data", "orders")
    broken.batches[2][70] ^= 1
    data = folders.finish(tmp_path / "data", [broken])
    done = pipeline("archive", "--data", str(data), "--out", str(tmp_path / "out"), "--progress", "none")
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert said.startswith("broker-lite: orders-0/00000000000000000000.log: byte 402, batch at offset 10")
    assert "the checksum does not fit" in said
    assert "Traceback" not in done.stderr
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["_manifest.json"]
    done = pipeline("archive", "--data", str(data), "--out", str(tmp_path / "out"), "--on-corrupt", "skip")
    assert done.returncode == 0, done.stderr
    assert "1 damaged batches left out" in done.stdout


def test_a_replay_gets_into_a_protected_broker_and_an_archive_gets_out_of_it(tmp_path: Path) -> None:
    data = folders.finish(tmp_path / "data", [folders.idempotent(tmp_path / "data", "orders")])
    certificates, file, out = tmp_path / "certs", tmp_path / "client.properties", tmp_path / "out"
    certs.make(certificates, ["127.0.0.1"])
    address = f"127.0.0.1:{free_port()}"
    login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="secret";'
    file.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={login}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={certificates / 'ca.pem'}\n"
    )
    words = ["--listen", f"SASL_SSL://{address}", "--tls", str(certificates), "--sasl-user", "alice:secret"]
    with BrokerProcess(tmp_path / "broker", words, listen=""):
        done = pipeline("replay", "--data", str(data), "--to", address, "--to-config", str(file))
        assert done.returncode == 0, done.stderr
        assert "replayed 30 records of 1 partitions" in done.stdout
        wire = ["--bootstrap", address, "--command-config", str(file), "--topic", "orders"]
        done = pipeline("archive", *wire, "--out", str(out))
        assert done.returncode == 0, done.stderr
    assert rows(out) == [(0, offset) for offset in range(30)]


def test_a_job_under_spark_submit_leaves_spark_to_spark_submit(tmp_path: Path) -> None:
    import pyspark

    data = tmp_path / "data"
    broken = folders.idempotent(data, "orders")
    broken.batches[2][70] ^= 1
    folders.finish(data, [broken])
    job = tmp_path / "job.py"
    job.write_text(JOB)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [str(submit), "--master", "local[1]", "--name", "named by us", "--driver-memory", "512m", str(job)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [
            *command,
            "audit",
            "--data",
            str(data),
            "--json",
            "--progress",
            "none",
            "--picture",
            str(tmp_path / "audit.png"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment,
    )
    assert done.returncode == 1, done.stderr[-2000:]
    told = json.loads(done.stdout)
    assert [one["kind"] for one in told["findings"]] == ["checksum", "sequence gap"]
    assert (tmp_path / "audit.png").read_bytes().startswith(b"\x89PNG")
