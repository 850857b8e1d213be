"""Many deadlines, most of which are moved on before they come.

A member's session is prolonged by every heartbeat, so moving a deadline must cost next to nothing: the new time is
noted in a dict and the heap keeps its old, too early entry.  When that entry comes up it is put back at the true
time.  So `next_at` may be early and never late, and each key has at most one entry that counts.

Entries that no longer count go when their time comes, which may be half an hour, or when they are most of the heap.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


_FEW = 64
"""Entries that are not worth the trouble."""


class Timers(Generic[Key]):
    def __init__(self) -> None:
        self._due: dict[Key, float] = {}
        self._queued: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._count = 0

    def set(self, key: Key, at: float) -> float | None:
        """When it was due before, as with `cancel`."""
        before = self._due.get(key)
        self._due[key] = at
        queued = self._queued.get(key)
        if queued is None or queued > at:
            self._push(key, at)
        return before

    def cancel(self, key: Key) -> float | None:
        before = self._due.pop(key, None)
        if before is not None:
            self._shrink()
        return before

    def __contains__(self, key: Key) -> bool:
        return key in self._due

    def due_at(self, key: Key) -> float | None:
        return self._due.get(key)

    @property
    def next_at(self) -> float | None:
        """When to call `over` again; None when nothing is set."""
        if not self._due:
            self._heap.clear()
            self._queued.clear()
        return self._heap[0][0] if self._heap else None

    def over(self, now: float) -> Iterator[Key]:
        """Each key whose time has come, once. Keys may be set and cancelled between two of them."""
        while self._heap and self._heap[0][0] <= now:
            at, _, key = heappop(self._heap)
            if self._queued.get(key) != at:
                continue
            del self._queued[key]
            due = self._due.get(key)
            if due is None:
                continue
            if due > now:
                self._push(key, due)
                continue
            del self._due[key]
            yield key

    def _push(self, key: Key, at: float) -> None:
        self._count += 1
        self._queued[key] = at
        heappush(self._heap, (at, self._count, key))
        self._shrink()

    def _shrink(self) -> None:
        if len(self._heap) > 2 * len(self._due) + _FEW:
            self._queued = dict(self._due)
            self._heap = [(at, number, key) for number, (key, at) in enumerate(self._due.items())]
            self._count = len(self._heap)
            heapify(self._heap)
