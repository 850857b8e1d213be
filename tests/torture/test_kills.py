"""kill -9 under load: what was acknowledged is there, once, in order, at the offset that was acknowledged.

BROKER_LITE_CYCLES   how many kills in each mode (15)
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess
from tests.support.housekeeping import as_arguments
from tests.torture.load import CLEANER_EVERY, OPTIONS, under_load

CYCLES = int(os.environ.get("BROKER_LITE_CYCLES", "15"))


@pytest.mark.slow
@pytest.mark.timeout(120 + CYCLES * 6)
@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_nothing_acknowledged_is_lost_doubled_or_out_of_order_after_many_kills(tmp_path: Path, durability: str) -> None:
    arguments = [*OPTIONS, "--durability", durability, *as_arguments()]
    interrupted, total = under_load(BrokerProcess(tmp_path, arguments), CYCLES)
    print(f"{CYCLES} kills, {interrupted} of a cleaner at work, {total} records acknowledged, 0 lost, 0 doubled")
    assert total > CYCLES * 10
    assert interrupted >= CYCLES // CLEANER_EVERY // 4, "kills hardly met the cleaner"
