"""The real process is killed as it enters a write, a rename or a sync, in the middle of a scripted transaction.

Which of these calls is chosen by a dice whose seed is printed; SEED=… repeats a run, STRACE_KILLS=n asks for more.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
import struct
import sys
from collections import Counter
from pathlib import Path
from typing import cast

import pytest

from broker_lite.broker.broker import Broker
from broker_lite.clock import SystemClock
from broker_lite.config.start import Durability
from tests.apis.test_transactions import Producer
from tests.support.broker import BrokerFailed, BrokerProcess
from tests.support.talk import Talk
from tests.transactions.crash_sweep import Case, check, prepare

CALLS = "write,writev,pwrite64,pwritev,pwritev2,rename,renameat,renameat2,ftruncate,fsync,fdatasync,unlink,mkdir"
KILLS = int(os.environ.get("STRACE_KILLS", "4"))
SEED = int(os.environ.get("SEED", str(random.randrange(10**6))))


class _Clocked:
    clock = SystemClock()


class FarTalk(Talk):
    """One client, over a socket."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(cast(Broker, _Clocked()))
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=20)

    async def ask_raw(self, frame: memoryview) -> bytes | None:
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        head = self._receive(4)
        return head + self._receive(struct.unpack(">i", head)[0])

    def _receive(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            if not part:
                raise ConnectionResetError
            parts += part
        return bytes(parts)


def traced(folder: Path, durability: Durability, kill_at: tuple[str, int] | None = None) -> BrokerProcess:
    inject = ["-e", f"inject={kill_at[0]}:signal=KILL:when={kill_at[1]}"] if kill_at else []
    # -D: the process is ours, and strace its companion, so that killing it kills the broker.
    trace = ["strace", "-D", "-f", "-qq", "-o", str(folder / "trace"), "-e", f"trace={CALLS}", *inject]
    arguments = ("--durability", durability.value)
    return BrokerProcess(folder, arguments, command=[*trace, sys.executable, "-m", "broker_lite"])


def script(broker: BrokerProcess, case: Case) -> list[list[object]]:
    """What the producer was told before the broker died, or all of it."""
    told: list[list[object]] = []

    async def talk() -> None:
        far = FarTalk(broker.bootstrap)
        producer = Producer(far, new=case.new)
        for name, step in case.steps(far, producer):
            code = await step()
            assert code == 0, (name, code, broker.story())
            sequences = [producer.sequence.get(("t", partition), 0) for partition in (0, 1)]
            told.append([name, producer.id, producer.epoch, *sequences])

    try:
        asyncio.run(talk())
    except ConnectionError:
        return told
    return told


def entered(trace: Path) -> list[tuple[str, int]]:
    """Each call in order: its name, and the how manieth of that name in its thread, which is what strace counts."""
    seen: Counter[tuple[str, str]] = Counter()
    calls = []
    for line in trace.read_text(errors="replace").splitlines():
        thread, _, call = line.partition(" ")
        name = call.strip().partition("(")[0]
        if name in CALLS.split(","):
            seen[thread, name] += 1
            calls.append((name, seen[thread, name]))
    return calls


@pytest.mark.slow
@pytest.mark.timeout(240 + KILLS * 30)
@pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])
def test_killed_in_the_middle_of_a_system_call(tmp_path: Path, durability: Durability) -> None:
    if not shutil.which("strace"):
        pytest.skip("strace is missing; to have it: sudo apt-get install strace")
    dice = random.Random(SEED)
    print(f"SEED={SEED} STRACE_KILLS={KILLS}")
    cases = [Case(durability, new, commit) for new in (True, False) for commit in (True, False)]
    prepare(tmp_path / "origin", cases[0])
    whole = tmp_path / "whole"
    whole.mkdir()
    shutil.copytree(tmp_path / "origin", whole / "data")
    with traced(whole, durability) as broker:
        before = len(entered(whole / "trace"))
        assert script(broker, cases[0])[-1][0] == "end"
        calls = entered(whole / "trace")[before:]
    assert len(calls) > 5, "the script wrote nothing"
    deaths = number = 0
    while deaths < KILLS:
        number += 1
        assert number <= 5 * KILLS, f"only {deaths} of {number} died in the script"
        case = cases[number % len(cases)]
        folder = tmp_path / str(number)
        folder.mkdir()
        shutil.copytree(tmp_path / "origin", folder / "data")
        kill_at = dice.choice(calls)
        told: list[list[object]] = []
        broker = traced(folder, durability, kill_at)
        try:
            with broker:
                told = script(broker, case)
                deaths += len(told) < len(case.steps(cast(Talk, None), Producer(cast(Talk, None), new=case.new)))
        except BrokerFailed:
            told = []  # killed before it was ready
        try:
            check(folder / "data", case, told)
        except AssertionError as error:
            raise AssertionError(f"killed at {kill_at}, told {[line[0] for line in told]}: {error}") from error
    print(f"{deaths} of {number} died in the script")
