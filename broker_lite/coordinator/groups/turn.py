"""One decision while it is being made: the time it is made at, and what has been decided so far."""

from __future__ import annotations

from broker_lite.coordinator.decision import Record, Ticket
from broker_lite.coordinator.groups.settings import GroupSettings
from broker_lite.coordinator.timers import Timers
from broker_lite.shapes import dataclass, field

TimerKey = tuple[str, str, str]
"""What ends (`session`, `join`, `sync`, …), the group, and the member if it is about one."""


@dataclass(slots=True)
class Turn:
    now: float
    """Seconds of the monotonic clock: sessions and time-outs are measured with it."""
    now_ms: int
    """The wall clock: it goes into records."""
    settings: GroupSettings
    timers: Timers[TimerKey]
    records: list[Record] = field(default_factory=list)
    answers: list[tuple[Ticket, object]] = field(default_factory=list)

    def answer(self, ticket: Ticket, answer: object) -> None:
        self.answers.append((ticket, answer))

    def set_timer(self, what: str, group: str, member: str = "", *, within_ms: int) -> None:
        self.timers.set((what, group, member), self.now + within_ms / 1000)

    def cancel_timer(self, what: str, group: str, member: str = "") -> None:
        self.timers.cancel((what, group, member))
