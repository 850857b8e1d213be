"""The broker dies in the middle of a transaction: at each call to the disk, in process, and under strace for real."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.transactions.crash_sweep import SURVIVES

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EVERY = 1 if os.environ.get("BROKER_LITE_TORTURE") else 4
"""One in so many calls, another choice in each run; all of them under `make torture`."""
SECONDS = 1120 // EVERY


@pytest.mark.timeout(SECONDS + 20)
@pytest.mark.parametrize("outcome", ["commit", "abort"])
@pytest.mark.parametrize("generation", ["old", "new"])
@pytest.mark.parametrize(("durability", "survives"), [("os", "kill"), *(("fsync", how) for how in SURVIVES)])
def test_a_transaction_is_all_there_or_not_at_all(
    durability: str, survives: str, generation: str, outcome: str
) -> None:
    first = random.randrange(1, EVERY + 1)
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        command = [
            *(sys.executable, "-m", "tests.transactions.crash_sweep", folder),
            *("--durability", durability, "--survives", survives),
            *("--generation", generation, "--outcome", outcome),
            *("--every", str(EVERY), "--first", str(first)),
        ]
        print(" ".join(command))
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "kept its word" in done.stdout
