"""Features: which there are, how far each is switched on, and changing that (KIP-584, KIP-1022).

A client acts on what ApiVersions tells of them: with `transaction.version` 2 it speaks the second transaction protocol,
with `group.version` 1 it may use consumer groups.  The epoch rises with every change, or clients would not look again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker_lite.broker.journal import Change
from broker_lite.shapes import dataclass

KIND = "feature"
FIELDS = {"level": int, "epoch": int}
METADATA = "metadata.version"
TRANSACTIONS = "transaction.version"
SUPPORTED = {
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    METADATA: (7, 30),
    TRANSACTIONS: (0, 2),
}
"""Name -> lowest and highest level."""
_AT_FIRST = {METADATA: 30, TRANSACTIONS: 2, "group.version": 1}


@dataclass(frozen=True, slots=True)
class Features:
    """What ApiVersions says of features: name, lowest, highest; what is switched on; and a number that rises."""

    supported: list[tuple[str, int, int]]
    finalized: list[tuple[str, int]]
    epoch: int


class FeatureLevels:
    def __init__(self, write: Callable[[list[Change]], None]) -> None:
        self._write = write
        self._levels = dict(_AT_FIRST)
        self._epoch = 0

    def level(self, name: str) -> int:
        return self._levels.get(name, 0)

    def told(self) -> Features:
        return Features(
            supported=[(name, low, high) for name, (low, high) in SUPPORTED.items()],
            finalized=[(name, level) for name, level in self._levels.items() if level > 0],
            epoch=self._epoch,
        )

    def set(self, levels: Mapping[str, int]) -> None:
        """All of `levels` or none."""
        changes = [
            Change(KIND, name, {"level": level, "epoch": self._epoch + 1})
            for name, level in levels.items()
            if level != self.level(name)
        ]
        if changes:
            self._write(changes)
            for change in changes:
                self.apply(change)

    def apply(self, change: Change) -> None:
        assert change.value is not None, change.name
        level, epoch = change.value["level"], change.value["epoch"]
        assert isinstance(level, int)
        assert isinstance(epoch, int)
        self._levels[change.name] = level
        self._epoch = max(self._epoch, epoch)
