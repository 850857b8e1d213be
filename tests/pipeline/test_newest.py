"""The newest PySpark that the extra allows, not the one that the tests are pinned to: `make matrix` tries it.

It is fetched beside the tests' own, half a gigabyte, and the jobs run with it as people start them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline import filling
from tests.pipeline.test_command_line import SMALL, rows
from tests.support.broker import BrokerProcess
from tests.support.cache import kept

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
RANGE = "pyspark>=4.2,<5"


@pytest.fixture(scope="module")
def newest() -> dict[str, str]:
    """An environment in which the newest release is found before the one that is pinned."""
    assert f'"{RANGE}"' in (ROOT / "pyproject.toml").read_text()
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    told = subprocess.run([*pip, "index", "versions", "pyspark"], capture_output=True, text=True, check=True).stdout
    all_versions = told.partition("Available versions: ")[2].split("\n")[0].split(", ")
    version = next(one for one in all_versions if one.startswith("4."))

    def fetch(out: Path) -> None:
        subprocess.run([*pip, "install", "-q", "--target", str(out), f"{RANGE},=={version}"], check=True, timeout=1500)

    folder = kept(f"pyspark-{version}", fetch)
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYSPARK_PYTHON": sys.executable}
    asked = [sys.executable, "-c", "import pyspark; print(pyspark.__version__)"]
    found = subprocess.run(asked, capture_output=True, text=True, check=True, env=environment, cwd=folder).stdout
    assert found.strip() == version
    return environment


def test_the_jobs_run_with_the_newest_pyspark(newest: dict[str, str], tmp_path: Path) -> None:
    def pipeline(*words: str) -> str:
        command = [sys.executable, "-m", "broker_lite", "pipeline", *words, *SMALL]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=newest, cwd=ROOT)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    archive, out = tmp_path / "archive", tmp_path / "out"
    everything = [(part, offset) for part in (0, 1) for offset in range(100)]
    with BrokerProcess(tmp_path / "broker") as broker:
        filling.create(broker.bootstrap, "orders")
        filling.fill(broker.bootstrap, "orders", count=100, codec="zstd")
        filling.wait_for_checkpoint(broker.data, broker.bootstrap, "orders")
        data = ["--data", str(broker.data), "--topic", "orders"]
        assert "archived 200 records" in pipeline("archive", *data, "--out", str(archive))
        assert rows(archive) == everything
        assert "the log is sound" in pipeline("audit", *data)
        to = ["--to", broker.bootstrap, "--to-topic", "again"]
        assert "replayed 200 records" in pipeline("replay", "--archive", str(archive), *to)
        words = ["--out", str(out), "--checkpoint", str(tmp_path / "checkpoint")]
        assert "streamed 200 records" in pipeline("stream", "--bootstrap", broker.bootstrap, "--topic", "again", *words)
        assert rows(out) == everything
