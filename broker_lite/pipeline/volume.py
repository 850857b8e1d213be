"""How much came when, in steps of time that grow until there are few: sums of different tasks can be added."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from broker_lite.pipeline.varints import Ints

STEPS = 400


@dataclass(slots=True)
class Volume:
    step: int = 1
    """Milliseconds, a power of two."""
    sums: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Which step since 1970 -> bytes, records."""

    def add(self, times: Ints, sizes: Ints, counts: Ints) -> None:
        steps, where = np.unique(times // self.step, return_inverse=True)
        held = np.bincount(where, weights=sizes, minlength=len(steps)).astype(np.int64)
        records = np.bincount(where, weights=counts, minlength=len(steps)).astype(np.int64)
        for one, size, count in zip(steps.tolist(), held.tolist(), records.tolist(), strict=True):
            self._put(one, size, count)
        self._few()

    def join(self, other: Volume) -> None:
        self.widen(other.step)
        for one, (size, count) in other.sums.items():
            self._put(one * other.step // self.step, size, count)
        self._few()

    def widen(self, step: int) -> None:
        """Steps of at least this length."""
        if step <= self.step:
            return
        old, before, self.step, self.sums = self.sums, self.step, step, {}
        for one, (size, count) in old.items():
            self._put(one * before // step, size, count)

    def _put(self, one: int, size: int, count: int) -> None:
        held, records = self.sums.get(one, (0, 0))
        self.sums[one] = held + size, records + count

    def _few(self) -> None:
        while len(self.sums) > STEPS:
            self.widen(self.step * 2)
