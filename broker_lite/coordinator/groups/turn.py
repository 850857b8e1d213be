"""One decision while it is being made: its time, what has been decided so far, and how to take it back."""

from __future__ import annotations

from collections.abc import Callable

from broker_lite.coordinator.decision import Decision, Record, Reply, Ticket
from broker_lite.coordinator.groups.settings import GroupSettings
from broker_lite.coordinator.timers import Timers
from broker_lite.errors import BrokerError
from broker_lite.shapes import dataclass, field

TimerKey = tuple[str, str, str]
"""What ends (`session`, `join`, `sync`, …), the group, and the member if it is about one."""

RETRY_MS = 500
"""How long a round waits whose end could not be written. Kafka's coordinators wait as long."""


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
    is_atomic: bool = False
    _timers_before: list[tuple[TimerKey, float | None]] = field(default_factory=list)
    _compensations: tuple[Callable[[BrokerError], None], ...] = ()

    def answer(self, ticket: Ticket, answer: object) -> None:
        self.answers.append((ticket, answer))

    def set_timer(self, what: str, group: str, member: str = "", *, within_ms: int) -> None:
        key = (what, group, member)
        self._timers_before.append((key, self.timers.set(key, self.now + within_ms / 1000)))

    def cancel_timer(self, what: str, group: str, member: str = "") -> None:
        key = (what, group, member)
        self._timers_before.append((key, self.timers.cancel(key)))

    def if_refused(self, compensate: Callable[[BrokerError], None]) -> None:
        """To be called if the records cannot be written, when all timers are again as they were."""
        self._compensations += (compensate,)

    def decided(self, reply: Reply) -> Decision[Reply]:
        if not self.records:
            return Decision(reply, self.records, self.answers)
        return Decision(reply, self.records, self.answers, self._take_back, self.is_atomic)

    def _take_back(self, refused: BrokerError) -> None:
        for key, before in reversed(self._timers_before):
            now = self.timers.due_at(key)
            if before is None:
                self.timers.cancel(key)
            elif key[0] != "session" or now is None or now < before:
                # A session that was prolonged stays so: whoever asked is alive.
                self.timers.set(key, before)
        for compensate in self._compensations:
            compensate(refused)
