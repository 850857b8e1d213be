"""Whatever was written, and however often it was compacted: a read_committed reader ends up with the same values.

Each seed is a life of a log: batches, transactions that commit or abort, rounds of compaction with little or much
memory now or days later, stops and kills.  A failure names its seed.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from broker_lite.log.memory_disk import MemoryDisk
from broker_lite.log.settings import DAY_MS
from broker_lite.records.compression import Codec
from broker_lite.records.record import Record
from tests.log.compacting import NOW, Kept, Put

KEYS = [b"a", b"b", b"c", b"a key that is longer than a digest would be", None]
VALUES = [b"1", b"2", b"three", None]
FIRST = int(os.environ.get("BROKER_LITE_SEED", "0"))
SEEDS = 12 * int(os.environ.get("BROKER_LITE_TORTURE", "1"))


class Life:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.kept = Kept(Path("/nowhere"), MemoryDisk(), segment_bytes=self.chance.choice([400, 1000, 1 << 20]))
        self.written: dict[int, Record] = {}
        self.values: dict[bytes, bytes] = {}
        self.open: tuple[int, list[Put]] | None = None
        """One at a time, or the order of what is committed is not the order of the log."""
        self.now_ms = NOW
        self.rounds = self.aborted = 0

    def step(self) -> None:
        do = self.chance.choices([self.put, self.put_more, self.end, self.compact, self.restart], [5, 3, 3, 3, 1])
        do[0]()

    def puts(self) -> list[Put]:
        return [(self.chance.choice(KEYS), self.chance.choice(VALUES)) for _ in range(self.chance.randint(1, 4))]

    def apply(self, puts: list[Put]) -> None:
        for key, value in puts:
            if key is not None:
                self.values.pop(key, None)
                if value is not None:
                    self.values[key] = value

    def remember(self, base: int, puts: list[Put]) -> None:
        for number, (key, value) in enumerate(puts):
            self.written[base + number] = Record(base + number, NOW + number, key, value)

    def put(self) -> None:
        if self.open is None:
            puts, producer = self.puts(), self.chance.choice([-1, -1, 8, 9])
            self.remember(self.kept.put(*puts, producer=producer, codec=self.chance.choice([*Codec][:2])), puts)
            self.apply(puts)

    def put_more(self) -> None:
        producer, pending = self.open or (self.chance.randint(1, 3), [])
        puts = self.puts()
        self.remember(self.kept.put(*puts, producer=producer, transactional=True), puts)
        self.open = producer, [*pending, *puts]

    def end(self) -> None:
        if self.open is not None:
            commit = self.chance.random() < 0.5
            self.kept.end(self.open[0], commit=commit, bump=self.chance.random() < 0.5)
            if commit:
                self.apply(self.open[1])
            self.open = None
            self.aborted += not commit

    def compact(self) -> None:
        self.now_ms += self.chance.choice([0, 0, 1, 2]) * DAY_MS
        last = self.kept.partition.last_records()
        keys, roll = self.chance.choice([1, 3, 1000]), self.chance.random() < 0.8
        facts = self.kept.compact(now_ms=self.now_ms, max_keys=keys, roll=roll)
        self.check()
        assert self.kept.partition.last_records() == last
        if facts is not None:
            self.rounds += 1
            clean = [one for one in self.kept.records() if one.offset < facts["upto"]]
            assert len({one.key for one in clean} - {None}) == len(clean)
            assert {one.offset for one in clean} <= {one.offset for one in self.kept.committed()}

    def restart(self) -> None:
        before = self.kept.partition.last_records()
        self.kept.restart(kill=self.chance.random() < 0.5, forget_snapshots=self.chance.random() < 0.5)
        assert self.kept.partition.log.recovered.damage is None
        assert self.kept.partition.last_records() == before
        self.check()

    def check(self) -> None:
        assert self.kept.fold() == self.values
        offsets = [batch.base_offset for batch in self.kept.batches() if batch.crc_ok()]
        assert offsets == sorted({batch.base_offset for batch in self.kept.batches()})
        for record in self.kept.records():
            assert record == self.written[record.offset]


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_a_reader_of_a_compacted_log_ends_up_with_the_same_values(seed: int) -> None:
    life = Life(seed)
    for _ in range(120):
        life.step()
    life.check()
    assert life.rounds > 3
    assert life.aborted
