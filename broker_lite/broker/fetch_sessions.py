"""Fetch sessions (KIP-227): a consumer of many partitions says once what it reads and then only what changed.

A request with epoch 0 asks for everything it names and opens a session; epoch -1 asks without one; any other epoch
continues.  In a continued session only partitions with news are answered: records, an error, or offsets that moved
since the last answer.  Partitions that were answered with records go to the back, so that a busy one cannot starve
the rest.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from broker_lite.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from broker_lite.ids import TopicId
from broker_lite.shapes import dataclass, field

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_EVICTABLE_AFTER = 120.0
"""Seconds without a request after which a session may give way to a new one."""
MAX_PARTITIONS = 500_000
"""In all sessions together, 230 bytes each. Kafka counts sessions only, but a client may name partitions that do not
exist. Beyond these a fetch gets no session and names all its partitions each time, as before KIP-227."""


@dataclass(slots=True)
class Want:
    """One partition as a fetch asks for it, and what the session last told about it."""

    topic: str
    topic_id: TopicId
    partition: int
    offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    told_high: int = -1
    told_start: int = -1

    @property
    def key(self) -> tuple[str, TopicId, int]:
        return self.topic, self.topic_id, self.partition

    def update(self, newer: Want) -> None:
        self.offset = newer.offset
        self.max_bytes = newer.max_bytes
        self.current_leader_epoch = newer.current_leader_epoch
        self.last_fetched_epoch = newer.last_fetched_epoch


WantKey = tuple[str, TopicId, int]


@dataclass(slots=True)
class Session:
    id: int
    by_topic_id: bool
    last_used: float
    epoch: int = 1
    wants: dict[WantKey, Want] = field(default_factory=dict)
    counted: int = 0
    """Partitions that the cache counts for it."""


@dataclass(slots=True)
class Plan:
    """What one request reads, in this order; `session` None: nothing is remembered."""

    wants: list[Want]
    session: Session | None = None
    incremental: bool = False

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.id

    def is_news(self, want: Want, *, failed: bool, has_records: bool, high: int, start: int, diverging: bool) -> bool:
        """Must this partition be in the answer? Remembers what is told."""
        if self.session is None:
            return True
        news = has_records or failed or diverging or high != want.told_high or start != want.told_start
        # After an error the next good answer is news even if the offsets did not move.
        want.told_high, want.told_start = (-1, -1) if failed else (high, start)
        if has_records and self.incremental:
            self.session.wants[want.key] = self.session.wants.pop(want.key, want)
        return news or not self.incremental


class FetchSessions:
    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._sessions: dict[int, Session] = {}
        """Least recently used first."""
        self._partitions = 0
        """In all of them."""

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(
        self,
        session_id: int,
        epoch: int,
        wants: list[Want],
        forgotten: Iterable[WantKey],
        *,
        by_topic_id: bool,
        now: float,
    ) -> Plan:
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._drop(session_id)
            if len(wants) > 1:
                wants = _once(wants)
            session = None if epoch == FINAL_EPOCH or not wants else self._open(wants, by_topic_id, now)
            return Plan(wants, session)
        session = self._sessions.get(session_id)
        if session is None:
            raise FetchSessionIdNotFound(f"there is no fetch session {session_id}")
        if session.epoch != epoch:
            raise InvalidFetchSessionEpoch(f"fetch session {session_id} expected epoch {session.epoch}, got {epoch}")
        if session.by_topic_id != by_topic_id:
            raise FetchSessionTopicIdError(f"fetch session {session_id} was opened with the other way to name topics")
        self._drop(session_id)
        for want in wants:
            known = session.wants.setdefault(want.key, want)
            if known is not want:
                known.update(want)
        for key in forgotten:
            session.wants.pop(key, None)
        if not session.wants:
            return Plan([])
        if self._partitions + len(session.wants) > MAX_PARTITIONS:
            raise FetchSessionIdNotFound(f"fetch session {session_id} has too many partitions to be kept")
        session.epoch = 1 if epoch == 2**31 - 1 else epoch + 1
        session.last_used = now
        self._keep(session)
        return Plan(list(session.wants.values()), session, incremental=True)

    def _keep(self, session: Session) -> None:
        self._sessions[session.id] = session
        session.counted = len(session.wants)
        self._partitions += session.counted

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= session.counted

    def _open(self, wants: list[Want], by_topic_id: bool, now: float) -> Session | None:
        while len(self._sessions) >= self.slots or self._partitions + len(wants) > MAX_PARTITIONS:
            if not self._evict(now):
                return None
        session_id = random.randint(1, 2**31 - 1)
        while session_id in self._sessions:
            session_id = random.randint(1, 2**31 - 1)
        session = Session(session_id, by_topic_id, now, wants={want.key: want for want in wants})
        self._keep(session)
        return session

    def _evict(self, now: float) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now - oldest.last_used < _EVICTABLE_AFTER:
            return False
        self._drop(oldest.id)
        return True


def _once(wants: list[Want]) -> list[Want]:
    """A partition that is named again is read once: where it was named first, as it was named last, as in Kafka."""
    once = {(want.topic, want.topic_id, want.partition): want for want in wants}
    return wants if len(once) == len(wants) else list(once.values())
