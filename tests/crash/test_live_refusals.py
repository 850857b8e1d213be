"""Live brokers on disks that refuse, fill up and heal: see `live`. A few runs here, many under `make torture`."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from broker_lite.config.start import Durability
from tests.crash.live import run
from tests.crash.live_clients import Anomaly
from tests.crash.sampling import SEED, WHOLE

pytestmark = pytest.mark.slow
RUNS = 150 if WHOLE else 6
STEPS = 1500 if WHOLE else 600


@pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])
async def test_nothing_acknowledged_is_lost_and_nothing_refused_is_there(
    tmp_path: Path, durability: Durability
) -> None:
    refused: Counter[str] = Counter()
    for number, seed in enumerate(random.Random(SEED).sample(range(1 << 30), RUNS)):
        try:
            made = await run(durability, seed, STEPS, tmp_path / str(number))
        except Anomaly as error:
            again = f"python -m tests.crash.live --durability {durability.value} --seed {seed} --steps {STEPS}"
            pytest.fail(f"{error}\nBROKER_LITE_SEED={SEED}, or: {again}")
        refused.update({what: no for what, (_, no) in made.answers.items()})
    assert min(refused[what] for what in ("produce", "produce once", "create", "delete records")) > 0
