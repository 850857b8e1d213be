"""Batches that have to be inflated: a few at a time, and not for ever."""

from __future__ import annotations

import struct
import threading
import time
from pathlib import Path

import anyio
import pytest

from bench.raw import Connection, frame, string
from broker_lite.apis import k00_produce
from broker_lite.broker.broker import INFLATING
from broker_lite.config.start import TopicAtStart
from broker_lite.errors import ErrorCode
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.compression import Codec
from tests.support.broker import BrokerProcess
from tests.support.talk import Talk, talking

TOPIC = TopicAtStart("t", 1, {"cleanup.policy": "compact"})
SMALL_AND_LARGE = NewRecord(b"k", bytes(60 << 20))
"""Two kilobytes when it comes."""
CEILING = 512 << 10
"""KiB."""


def bomb(codec: Codec = Codec.ZSTD) -> bytes:
    return build_batch([SMALL_AND_LARGE], timestamp=int(time.time() * 1000), codec=codec)


async def test_only_a_few_batches_are_inflated_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy, most, lock, begun = 0, 0, threading.Lock(), threading.Semaphore(0)

    def check(*_: object, **__: object) -> None:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        begun.release()
        begun.acquire(timeout=0.01)
        with lock:
            busy -= 1

    monkeypatch.setattr(k00_produce, "check_any", check)
    batch = bomb()
    async with talking(tmp_path, topics=[TOPIC]) as talk:
        clients = [Talk(talk.broker) for _ in range(30)]
        async with anyio.create_task_group() as tasks:
            for client in clients:
                tasks.start_soon(lambda client=client: client.produce("t", batch=batch))  # type: ignore[misc]
    assert 1 <= most <= INFLATING


async def test_a_check_that_takes_too_long_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(k00_produce, "_LONGEST_CHECK", 0.05)
    monkeypatch.setattr(k00_produce, "check_any", lambda *_, **__: over.wait(20))
    async with talking(tmp_path, topics=[TOPIC]) as talk:
        answer = await talk.produce("t", batch=bomb())
        over.set()
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert (await talk.fetch("t", 0)).responses[0].partitions[0].high_watermark == 0, "nothing was written"


def asked(broker: BrokerProcess, request: bytes, times: int) -> int:
    """The most memory that the broker ever held, in KiB, after so many have asked for the same at once."""

    def ask() -> None:
        with Connection(broker.bootstrap, timeout=90) as connection:
            connection.ask(request)

    threads = [threading.Thread(target=ask) for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = Path(f"/proc/{broker.pid}/status").read_text()
    return next(int(line.split()[1]) for line in said.splitlines() if line.startswith("VmHWM"))


def writing(batch: bytes) -> bytes:
    """Produce v7."""
    head = struct.pack(">hhii", -1, -1, 30_000, 1) + string("t")
    return frame(0, 7, head + struct.pack(">iii", 1, 0, len(batch)) + batch)


@pytest.mark.slow
def test_many_who_write_a_bomb_take_the_memory_of_a_few(tmp_path: Path) -> None:
    batch = bomb()
    assert len(batch) < 4096
    with BrokerProcess(tmp_path, ["--topic", "t,cleanup.policy=compact"]) as broker:
        assert asked(broker, writing(batch), 12) < CEILING


@pytest.mark.slow
def test_many_who_read_a_bomb_as_in_the_old_days_take_the_memory_of_a_few(tmp_path: Path) -> None:
    reading = frame(1, 1, struct.pack(">iiii", -1, 100, 1, 1) + string("t") + struct.pack(">iiqi", 1, 0, 0, 1 << 20))
    with BrokerProcess(tmp_path, ["--topic", "t"]) as broker:
        with Connection(broker.bootstrap) as connection:
            connection.ask(writing(bomb(Codec.GZIP)))
        assert asked(broker, reading, 6) < CEILING
