"""Nothing acknowledged changes its meaning, whatever the broker's background work does meanwhile.

BROKER_LITE_STORM=600   seconds for each test instead of 15
BROKER_LITE_SEED=…      to repeat a run
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from broker_lite.config.start import Durability
from tests.crash.faulty_disk import FaultyDisk
from tests.crash.sampling import SEED
from tests.transactions.storm import PARTITIONS, SHORT_LIVED, Storm, anomalies, stormy

SECONDS = float(os.environ.get("BROKER_LITE_STORM", "15"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS * 2 + 120)]
both_modes = pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC], ids=lambda mode: mode.value)


def judge(storm: Storm) -> None:
    outcomes = [txn.outcome for txn in storm.history.txns.values()]
    committed, aborted = outcomes.count("committed"), outcomes.count("aborted")
    print(f"BROKER_LITE_SEED={SEED} committed={committed} aborted={aborted} answers={dict(storm.answers)}")
    assert anomalies(storm)[:10] == []
    assert min(committed, aborted) > 5 * SECONDS, "too little happened to prove anything"


@both_modes
async def test_commits_stay_visible_and_aborts_invisible(tmp_path: Path, durability: Durability) -> None:
    async with stormy(tmp_path, SEED, durability=durability) as storm:
        await asyncio.sleep(SECONDS)
    judge(storm)
    assert {code for what, code in storm.answers if what == "end"} <= {"NONE", "INVALID_TXN_STATE"}


@both_modes
async def test_a_time_out_aborts_the_transaction_that_timed_out_and_no_other(
    tmp_path: Path, durability: Durability
) -> None:
    async with stormy(tmp_path, SEED, durability=durability, hasty=8) as storm:
        await asyncio.sleep(SECONDS)
    judge(storm)


@both_modes
async def test_the_end_of_a_transaction_is_not_refused_when_one_of_its_topics_goes(
    tmp_path: Path, durability: Durability
) -> None:
    async with stormy(tmp_path, SEED, durability=durability, deleting=True) as storm:
        broker, end = storm.talk.broker, asyncio.get_running_loop().time() + SECONDS
        while asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.02)
            topic = broker.topics.get(SHORT_LIVED)
            assert topic is not None
            broker.delete_topic(topic)
            await asyncio.sleep(storm.dice.random() * 0.005)
            broker.topics.create(SHORT_LIVED, PARTITIONS, {})
    judge(storm)


class MoodyDisk(FaultyDisk):
    """Takes half of an append and then refuses, while it is in the mood."""

    angry = False

    def before(self, what: str, torn: object = None) -> None:
        self.refuse_at = self.calls + 1 if self.angry and what in ("append", "append_bytes", "write_atomic") else 0
        super().before(what, torn)


@both_modes
async def test_a_disk_that_refuses_and_heals_delays_transactions_and_changes_none(
    tmp_path: Path, durability: Durability
) -> None:
    disk = MoodyDisk()
    async with stormy(tmp_path, SEED, durability=durability, disk=disk) as storm:
        end = asyncio.get_running_loop().time() + SECONDS
        while asyncio.get_running_loop().time() < end:
            await asyncio.sleep(storm.dice.random() * 0.03)
            disk.angry = True
            await asyncio.sleep(storm.dice.random() * 0.01)
            disk.angry = False
    judge(storm)
