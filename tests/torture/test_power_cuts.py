"""Power cuts on a real file system: in `fsync` mode nothing acknowledged is lost; in `os` mode the rig does lose data.

The broker is killed first, then its file system is shut down without writing anything back.

    BROKER_LITE_CUTS   how many for each file system (5)
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess
from tests.torture.load import OPTIONS, Writer, read_all, under_load
from tests.torture.power import Rig

CUTS = int(os.environ.get("BROKER_LITE_CUTS", "5"))
MEGABYTES = {"ext4": 128, "xfs": 320}
pytestmark = [pytest.mark.slow, pytest.mark.needs_root, pytest.mark.timeout(120 + CUTS * 10)]

Plug = Callable[[str], Rig]


@pytest.fixture
def plug(tmp_path: Path) -> Iterator[Plug]:
    rigs: list[Rig] = []

    def make(kind: str) -> Rig:
        if os.geteuid() != 0 or not shutil.which(f"mkfs.{kind}"):
            pytest.skip(f"needs root and mkfs.{kind}; to have it: sudo apt-get install e2fsprogs xfsprogs")
        try:
            rigs.append(Rig(tmp_path, kind, MEGABYTES[kind]))
        except OSError as error:
            pytest.skip(f"no loop-mounted {kind} here: {error}")
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.unmount()


def broker_on(rig: Rig, folder: Path, durability: str) -> BrokerProcess:
    broker = BrokerProcess(folder / "broker", ["--durability", durability, *OPTIONS])
    broker.data = rig.mount_point / "data"
    return broker


@pytest.mark.parametrize("kind", MEGABYTES)
def test_nothing_acknowledged_is_lost_when_the_power_goes(tmp_path: Path, plug: Plug, kind: str) -> None:
    rig = plug(kind)
    interrupted, total = under_load(broker_on(rig, tmp_path, "fsync"), CUTS, then=rig.cut)
    print(f"{CUTS} power cuts on {kind}, {interrupted} of a cleaner at work, {total} records acknowledged, 0 lost")


@pytest.mark.parametrize("kind", MEGABYTES)
def test_the_rig_loses_what_was_not_synced(tmp_path: Path, plug: Plug, kind: str) -> None:
    rig = plug(kind)
    broker = broker_on(rig, tmp_path, "os").start()
    writer = Writer(broker.bootstrap, "plain", 0)
    try:
        writer.start()
        time.sleep(1.0)
        writer.stopping.set()
        writer.join(60)
        broker.kill()
        rig.cut()
        broker.start()
        numbers = [number for _, number in read_all(broker.bootstrap, "plain")[0]]
        broker.stop()
    finally:
        writer.stopping.set()
        if broker.alive:
            broker.kill()
    assert len(writer.acknowledged) > 100
    assert numbers == list(range(len(numbers))), "not a beginning of what was written"
    assert len(numbers) < len(writer.acknowledged), "a rig that loses nothing proves nothing"
