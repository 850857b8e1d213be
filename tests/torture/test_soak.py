"""Mixed load for as long as one likes: memory, descriptors, threads, tasks and files stay level.

BROKER_LITE_SOAK_SECONDS   how long in each mode (30)
BROKER_LITE_SEED           the same load again
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

from bench.peer import free_port
from tests.support.broker import BrokerProcess
from tests.torture.load import SEED
from tests.torture.samples import TOLERANCES, Samples
from tests.torture.soak import OPTIONS, Soak

SECONDS = float(os.environ.get("BROKER_LITE_SOAK_SECONDS", "30"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120 + SECONDS * 2)]


@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_nothing_grows_under_a_level_load(tmp_path: Path, durability: str) -> None:
    port = free_port()
    options = [*OPTIONS, "--durability", durability, "--metrics", f"127.0.0.1:{port}"]
    print(f"BROKER_LITE_SEED={SEED}")
    with BrokerProcess(tmp_path, options) as broker:
        soak = Soak(broker.bootstrap, SEED)
        samples = Samples(broker.pid, broker.data, f"http://127.0.0.1:{port}/metrics")
        asyncio.run(soak.run(SECONDS, samples.take))
        print(f"{durability}, {SECONDS:.0f} s: {dict(soak.done)}")
        print(samples.report())
        assert all(soak.done[name] > 0 for name in soak._workers())
        broker.stop()
        broken = re.findall(r"^.*(?:Traceback|request\.failed|background\.failed).*$", broker.stderr, re.MULTILINE)
        assert broken == []
    assert samples.grown() == []


def test_what_grows_is_found() -> None:
    samples = Samples(0, Path(), "")
    for number in range(30):
        for name, tolerance in TOLERANCES.items():
            samples.series[name].append(1000 * tolerance.least + number * tolerance.least * (name == "threads"))
    assert [line.split()[0] for line in samples.grown()] == ["threads"]
