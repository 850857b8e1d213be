"""A scripted transaction whose broker dies at each call to the disk in turn, and what must be true afterwards.

python -m tests.transactions.crash_sweep FOLDER --durability fsync --generation new --outcome commit

The script begins, adds, writes to two partitions, commits offsets and ends, in a process of its own that is gone at the
n-th call that changes something on the disk: half of that write happens, nothing after it.  Every answer it got is
written down before the next request.  In `fsync` mode a power cut is tried as well: what was not synced is lost.  Then
the folder is opened again, twice:

- by the producer, which repeats the request that was not answered and goes on: everything must work, and the outcome
  must be the one it asked for, in both partitions and in the group;
- by a newcomer under the same id, after which nobody may wait for the old transaction.

Whatever had been decided, all of it is visible or nothing is, and what the producer was told holds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from broker_lite.config.start import Durability
from broker_lite.records.batch import walk
from broker_lite.records.record import records_of
from broker_lite.wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tests.apis.test_transactions import Producer, committed_offset, read
from tests.crash.faulty_disk import FaultyDisk
from tests.support.talk import Talk, talking

SURVIVES = {"kill": (1, 1), "power cut": (0, 1), "half a power cut": (1, 2)}
BEFORE, AFTER = 1, 5
"""The group's offset before and after the transaction."""


class DeadlyDisk(FaultyDisk):
    """Takes the process with it, and leaves a note of what had been synced."""

    def __init__(self, power_off_at: int, note: Path) -> None:
        super().__init__(power_off_at=power_off_at)
        self._note = note
        self._dying = threading.Lock()

    def before(self, what: str, torn: object = None) -> None:
        if self.calls + 1 == self.power_off_at:
            self._dying.acquire()  # one thread dies for all
            try:
                if callable(torn):
                    torn()
                there = [path for path in list(self.files) if path.exists()]  # another thread may still make some
                self._note.write_text(json.dumps({str(path): self.synced.get(path, 0) for path in there}))
            finally:
                os._exit(0)
        super().before(what, torn)


@dataclass
class Case:
    durability: Durability
    new: bool
    commit: bool

    def steps(self, talk: Talk, producer: Producer) -> list[tuple[str, Callable[[], Awaitable[int]]]]:
        """What the producer does, in order. Each may be repeated until it is answered."""
        producer.talk = talk

        async def add() -> int:
            codes = await producer.add("t", 0, 1)
            return max(codes)

        async def add_group() -> int:
            request = AddOffsetsToTxnRequest(
                transactional_id="x", producer_id=producer.id, producer_epoch=producer.epoch, group_id="g"
            )
            return (await talk.ask(request, 3, AddOffsetsToTxnResponse)).error_code

        old = [] if self.new else [("add", add), ("add the group", add_group)]
        return [
            ("init", producer.init),
            *old,
            ("write a", lambda: producer.send(b"a")),
            ("write b", lambda: producer.send(b"b", partition=1)),
            ("offsets", lambda: producer.commit_offset(AFTER)),
            ("end", lambda: producer.end(commit=self.commit)),
        ]


def prepare(root: Path, case: Case) -> None:
    """A topic, and an offset that was committed before."""

    async def live() -> None:
        async with talking(root, durability=case.durability) as talk:
            talk.broker.topics.create("t", 2, {})
            first = Producer(talk, "before", new=True)
            assert await first.init() == 0
            assert await first.commit_offset(BEFORE) == 0
            assert await first.end() == 0

    asyncio.run(live())


def dies_at(root: Path, case: Case, call: int) -> tuple[int, list[list[object]]]:
    """Run the script in a process of its own. How many calls it made, if it came to its end, and what it was told."""
    told_path, note = root.with_suffix(".told"), root.with_suffix(".synced")
    child = os.fork()
    if child == 0:
        _run_and_die(root, case, call, told_path, note)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, f"call {call}: the script itself failed"
    told = [json.loads(line) for line in told_path.read_text().splitlines()] if told_path.exists() else []
    survived = [line[1] for line in told if line[0] == "calls"]
    return (int(survived[0]) if survived else 0), [line for line in told if line[0] != "calls"]


def _run_and_die(root: Path, case: Case, call: int, told_path: Path, note: Path) -> None:
    disk = DeadlyDisk(call, note)
    told = os.open(told_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def say(*line: object) -> None:
        os.write(told, (json.dumps(line) + "\n").encode())

    async def live() -> None:
        async with talking(root, durability=case.durability, disk=disk) as talk:
            producer = Producer(talk, new=case.new)
            for name, step in case.steps(talk, producer):
                code = await step()
                assert code == 0, (name, code)
                sequences = [producer.sequence.get(("t", partition), 0) for partition in (0, 1)]
                say(name, producer.id, producer.epoch, *sequences)
        say("calls", disk.calls)

    try:
        asyncio.run(live())
        os._exit(0)
    except BaseException as error:
        print(f"call {call}: {error!r}", file=sys.stderr)
        os._exit(1)


def lose(root: Path, numerator: int, denominator: int) -> None:
    """What had not been synced when the power went is there in part, or not at all."""
    note = root.with_suffix(".synced")
    for name, synced in (json.loads(note.read_text()) if note.exists() else {}).items():
        path = Path(name)
        if path.exists():
            size = path.stat().st_size
            kept = min(size, synced)
            with path.open("rb+") as file:
                file.truncate(kept + (size - kept) * numerator // denominator)


async def seen(talk: Talk) -> tuple[set[bytes], int, bool]:
    """What readers of committed records see, the group's offset, and whether anybody still waits for a marker."""
    values: set[bytes] = set()
    waiting = False
    for partition in (0, 1):
        data = await read(talk, committed=True, partition=partition)
        waiting = waiting or data.last_stable_offset < data.high_watermark
        aborted = {txn.producer_id: txn.first_offset for txn in data.aborted_transactions or []}
        for batch in walk(memoryview(cast(bytes, data.records or b""))):
            if not batch.is_control and batch.producer_id not in aborted:
                values |= {record.value or b"" for record in records_of(batch)}
    _, offset = await committed_offset(talk)
    return values, offset, waiting


def check_whole(values: set[bytes], offset: int) -> bool:
    """All or nothing; whether it is all."""
    assert (values, offset) in ((set(), BEFORE), ({b"a", b"b"}, AFTER)), f"half a transaction: {values}, {offset}"
    return bool(values)


def check(root: Path, case: Case, told: list[list[object]]) -> None:
    newcomer = Path(shutil.copytree(root, root.with_suffix(".newcomer")))
    asyncio.run(_goes_on(root, case, told))
    asyncio.run(_newcomer(newcomer, case, told))
    shutil.rmtree(newcomer)


async def _goes_on(root: Path, case: Case, told: list[list[object]]) -> None:
    async with talking(root, durability=case.durability) as talk:
        producer = Producer(talk, new=case.new)
        whole = check_whole(*(await seen(talk))[:2])
        ended = bool(told) and told[-1][0] == "end"
        if ended:
            assert whole == case.commit, "it was told otherwise"
        assert not whole or case.commit
        if told:
            _, producer.id, producer.epoch, first, second = told[-1]  # type: ignore[assignment]
            producer.sequence = {("t", 0): first, ("t", 1): second}  # type: ignore[dict-item]
        for name, step in case.steps(talk, producer)[len(told) :]:
            code = await step()
            if name == "init" and code == 51:
                code = await step()
            assert code == 0, f"{name} was repeated and refused with {code}"
        values, offset, waiting = await seen(talk)
        assert check_whole(values, offset) == case.commit
        assert not waiting
    async with talking(root, durability=case.durability) as talk:
        assert await seen(talk) == (values, offset, False), "another restart changed the outcome"


async def _newcomer(root: Path, case: Case, told: list[list[object]]) -> None:
    async with talking(root, durability=case.durability) as talk:
        whole = check_whole(*(await seen(talk))[:2])
        second = Producer(talk, new=case.new)
        code = await second.init()
        assert code in (0, 51), code
        assert await second.init() == 0
        values, offset, waiting = await seen(talk)
        assert check_whole(values, offset) == whole, "a newcomer changed what was decided"
        assert not waiting, "readers wait for a transaction that nobody can end"
        for partition in talk.broker.topics.open_partitions():
            assert not partition.open_transactions(), partition.tp


def sweep(folder: Path, case: Case, survives: tuple[int, int], first: int, every: int) -> int:
    """The broker dies at every n-th call. How many times it did."""
    prepare(folder / "origin", case)
    shutil.copytree(folder / "origin", folder / "all")
    calls, told = dies_at(folder / "all", case, -1)
    assert calls > 10, "the disk was hardly used"
    assert [line[0] for line in told][-1] == "end"
    times = 0
    for call in range(first, calls + 1, every):
        root = Path(shutil.copytree(folder / "origin", folder / str(call)))
        _, told = dies_at(root, case, call)
        lose(root, *survives)
        try:
            check(root, case, told)
        except AssertionError as error:
            names = [line[0] for line in told]
            raise AssertionError(f"dead at call {call} of {calls}, told {names}: {error}") from error
        shutil.rmtree(root)
        times += 1
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--durability", choices=["os", "fsync"], default="os")
    parser.add_argument("--generation", choices=["old", "new"], default="new")
    parser.add_argument("--outcome", choices=["commit", "abort"], default="commit")
    parser.add_argument("--survives", choices=[*SURVIVES], default="kill")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--every", type=int, default=1)
    asked = parser.parse_args()
    case = Case(Durability(asked.durability), asked.generation == "new", asked.outcome == "commit")
    times = sweep(asked.folder, case, SURVIVES[asked.survives], asked.first, asked.every)
    print(f"the broker died {times} times and kept its word")


if __name__ == "__main__":
    main()
