"""Strangers' bytes, guided by coverage: from valid seeds, a few seconds for each target (`make fuzz` takes longer)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import seeds
from tests.fuzz.targets import TARGETS

pytest.importorskip("atheris", reason="coverage-guided fuzzing needs the extra `fuzz`")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]

SECONDS = int(os.environ.get("BROKER_LITE_FUZZ_SECONDS", "15"))
SEED = int(os.environ.get("BROKER_LITE_FUZZ_SEED", "1"))
ROOT = Path(__file__).parents[2]


def fuzz(name: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.run",
        name,
        f"-seed={SEED}",
        f"-artifact_prefix={folder}/",
        "-rss_limit_mb=1024",
    ]
    return subprocess.run(
        [*command, *options], cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS + 300
    )


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_but_a_refusal_comes_of_any_bytes(name: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    seeds.write(name, corpus)
    assert list(corpus.iterdir())
    done = fuzz(name, tmp_path, f"-max_total_time={SECONDS}", "-timeout=10", "-max_len=4096", str(corpus))
    crashes = [file.read_bytes()[:300] for file in tmp_path.glob("*-*") if file.is_file()]
    assert done.returncode == 0, f"{crashes}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"


@pytest.mark.parametrize("name", TARGETS)
def test_the_seeds_themselves_pass(name: str, tmp_path: Path) -> None:
    seeds.write(name, tmp_path)
    files = sorted(tmp_path.iterdir())
    assert files
    for file in files:
        TARGETS[name](file.read_bytes())


def test_a_bug_inside_a_compiled_reader_would_be_found(tmp_path: Path) -> None:
    done = fuzz("planted", tmp_path, "-max_total_time=60", "-max_len=8")
    assert done.returncode != 0
    assert "the planted bug" in done.stdout + done.stderr
