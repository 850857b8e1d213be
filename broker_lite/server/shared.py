"""What all connections of a server have in common."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

import anyio

from broker_lite.server.limits import Budget, Complaints, Limits
from broker_lite.server.sasl import Answerer
from broker_lite.shapes import dataclass, field

if TYPE_CHECKING:
    from broker_lite.server.connection import Connection

RECEIVE = 262_144
"""The shared receive buffer: at most so much comes in one go."""


class Bell:
    """Heard by everybody who waits for it now. It costs nothing while nobody does."""

    def __init__(self) -> None:
        self._waited_for: anyio.Event | None = None

    def next(self) -> anyio.Event:
        if self._waited_for is None:
            self._waited_for = anyio.Event()
        return self._waited_for

    def ring(self) -> None:
        heard, self._waited_for = self._waited_for, None
        if heard is not None:
            heard.set()


@dataclass(slots=True)
class Shared:
    answer: Answerer
    limits: Limits
    budget: Budget
    strangers: Budget
    """For those who have not logged in where that is asked for: they leave the others theirs."""
    spawn: Callable[[Callable[[], Coroutine[object, object, None]]], object]
    """Starts a task that ends with the server: anyio's `TaskGroup.start_soon`."""
    on_made: Callable[[Connection], None]
    on_gone: Callable[[Connection], None]
    complaints: Complaints = field(default_factory=Complaints)
    receive: memoryview = field(default_factory=lambda: memoryview(bytearray(RECEIVE)))
