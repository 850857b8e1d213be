"""Group scripts: `>>` is what somebody sends, `<<` what somebody hears, in the order of hearing.

    group >> join("a") << waits
    group.wait(0.2) << joined("a", generation=1, leader="a")

The playbook is also the broker: it writes the records to a list, applies them and delivers the answers.  Everything
that is heard must be in the script: `nothing more` is checked when the script ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from broker_lite.coordinator.decision import Decision, Record, Reply
from broker_lite.coordinator.groups.classic import ClassicGroup
from broker_lite.coordinator.groups.committing import Commit, Committer
from broker_lite.coordinator.groups.coordinator import Groups
from broker_lite.coordinator.groups.members import Join, Sync
from broker_lite.coordinator.groups.offsets import Committed
from broker_lite.coordinator.groups.settings import GroupSettings
from broker_lite.coordinator.schemas import OffsetCommitValue, read
from broker_lite.errors import BrokerError, CoordinatorNotAvailable, ErrorCode, StorageFailed
from broker_lite.ids import NO_TOPIC_ID, TopicId

GROUP = "readers"


@dataclass(frozen=True)
class Topic:
    name: str
    id: TopicId
    partition_count: int


class Topics:
    """The catalogue of a broker that only has names: `topics["t"] = 4`."""

    def __init__(self) -> None:
        self._topics: dict[str, Topic] = {}
        self._made = 0

    def __setitem__(self, name: str, partitions: int) -> None:
        known = self._topics.get(name)
        self._made += 1
        topic_id = known.id if known else TopicId(name.encode().ljust(15, b".")[:15] + bytes([self._made]))
        self._topics[name] = Topic(name, topic_id, partitions)

    def __delitem__(self, name: str) -> None:
        del self._topics[name]

    def get(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def by_id(self, topic_id: TopicId) -> Topic | None:
        return next((topic for topic in self if topic.id == topic_id), None)

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._topics.values())


class Playbook:
    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.settings = settings or GroupSettings()
        self.topics = Topics()
        self.groups = Groups(self.settings, self.topics)
        self.now = 100.0
        self.now_ms = 1_700_000_000_000
        self.log: list[tuple[Record, int, int]] = []
        self.heard: list[tuple[str, object]] = []
        self.disk_fails = False
        self.disk_takes = 0
        """How many records of a decision that may be split are written before the disk fails."""

    def __rshift__(self, send: Callable[[Playbook], None]) -> Playbook:
        send(self)
        return self

    def __lshift__(self, expected: Expected) -> Playbook:
        if expected is waits:
            assert self.heard == [], f"nobody should have been answered yet: {self.heard}"
            return self
        assert self.heard, f"nobody heard anything; expected {expected}"
        who, answer = self.heard.pop(0)
        assert expected == Expected(who, answer), f"{who} heard {answer}\n  instead of {expected}"
        return self

    def classic(self) -> ClassicGroup:
        """The group that everybody is in, which is one of the classic protocol."""
        found = self.groups.group(GROUP)
        assert isinstance(found, ClassicGroup)
        return found

    def wait(self, seconds: float) -> Playbook:
        """Time goes by, as the coordinator wants to be woken."""
        until = self.now + seconds
        while (at := self.groups.wake_at) is not None and at <= until:
            self._go_to(max(at, self.now))
            for timers in self.groups.due(self.now):
                with suppress(CoordinatorNotAvailable):
                    self.carry_out(self.groups.fire(timers, now=self.now, now_ms=self.now_ms))
        self._go_to(until)
        return self

    def _go_to(self, now: float) -> None:
        self.now_ms += round((now - self.now) * 1000)
        self.now = now

    def restart(self) -> Playbook:
        """Everything in memory is lost, also who was waiting."""
        self.groups = Groups(self.settings, self.topics)
        for record, at, producer_id in self.log:
            bare = Record(record.key, record.value)
            self.groups.apply(bare, at=at, producer_id=producer_id, now_ms=self.now_ms)
        self.carry_out(self.groups.loaded(now=self.now, now_ms=self.now_ms))
        return self

    def carry_out(self, decision: Decision[Reply], producer_id: int = -1) -> Reply:
        """As `broker/group_log.py` does it."""
        fits = len(decision.records)
        if self.disk_fails:
            fits = 0 if decision.is_atomic else min(self.disk_takes, fits - 1)
        for record in decision.records[: max(fits, 0)]:
            assert record.spoken == _read(record), "what is written is what is read"
            self.log.append((record, len(self.log), producer_id))
            self.groups.apply(record, at=len(self.log) - 1, producer_id=producer_id, now_ms=self.now_ms)
        if decision.records and fits < len(decision.records):
            self._refuse(decision, is_partly_written=fits > 0)
        for who, answer in decision.answers:
            self.heard.append((str(who), answer))
        if decision.records:
            self.groups.written()
        return decision.reply

    def _refuse(self, decision: Decision[Reply], *, is_partly_written: bool) -> None:
        if decision.undo:
            decision.undo(StorageFailed("the disk is full"))
        if is_partly_written:
            self.groups.partly_written(now=self.now, now_ms=self.now_ms)
        for who, _ in decision.answers:
            self.heard.append((str(who), ErrorCode.COORDINATOR_NOT_AVAILABLE))
        raise CoordinatorNotAvailable("the disk is full")

    def ask(self, who: str, question: Callable[[], object]) -> None:
        """For requests that are answered at once."""
        before = len(self.heard)
        try:
            answer = question()
        except BrokerError as refused:
            if who not in (name for name, _ in self.heard[before:]):
                self.heard.append((who, refused.code))
        else:
            if answer is not None:
                self.heard.append((who, answer))

    def committed(self, partition: int = 0, topic: str = "t", *, stable: bool = False) -> Committed:
        return self.groups.committed(GROUP, topic, partition, stable=stable, topic_id=bytes(16))


@dataclass
class Expected:
    who: str
    answer: object = None
    facts: dict[str, object] = field(default_factory=dict)

    def __eq__(self, heard: object) -> bool:
        if not isinstance(heard, Expected) or heard.who != self.who:
            return False
        if self.answer is not None:
            return self.answer == heard.answer
        return all(getattr(heard.answer, name, None) == value for name, value in self.facts.items())


waits = Expected("", "waits")


# What is sent


def join(
    who: str,
    *,
    member: str | None = None,
    instance: str | None = None,
    protocols: tuple[tuple[str, bytes], ...] = (("range", b""),),
    protocol_type: str = "consumer",
    session: float = 10,
    rebalance: float = 60,
    id_first: bool = False,
    skip: bool = False,
    group: str = GROUP,
) -> Callable[[Playbook], None]:
    """`who` is also the id given to a newcomer; `member` is the id it names, if it has one already."""

    def send(book: Playbook) -> None:
        asked = Join(
            group=group,
            member_id=member or "",
            instance_id=instance,
            client_id="client",
            client_host="/127.0.0.1",
            protocol_type=protocol_type,
            protocols=list(protocols),
            session_timeout_ms=round(session * 1000),
            rebalance_timeout_ms=round(rebalance * 1000),
            new_member_id=who,
            id_first=id_first,
            may_skip_assignment=skip,
        )
        book.ask(who, lambda: book.carry_out(book.groups.join(asked, who, now=book.now, now_ms=book.now_ms)))

    return send


def rejoin(who: str, **more: object) -> Callable[[Playbook], None]:
    return join(who, member=who, **more)  # type: ignore[arg-type]


def sync(
    who: str,
    assignments: dict[str, bytes] | None = None,
    *,
    generation: int = 1,
    instance: str | None = None,
    protocol: str | None = None,
    protocol_type: str | None = None,
) -> Callable[[Playbook], None]:
    def send(book: Playbook) -> None:
        asked = Sync(
            group=GROUP,
            member_id=who,
            instance_id=instance,
            generation=generation,
            protocol=protocol,
            protocol_type=protocol_type,
            assignments=assignments or {},
        )
        book.ask(who, lambda: book.carry_out(book.groups.sync(asked, who, now=book.now, now_ms=book.now_ms)))

    return send


def heartbeat(who: str, *, generation: int = 1, instance: str | None = None) -> Callable[[Playbook], None]:
    def send(book: Playbook) -> None:
        def beat() -> object:
            book.groups.heartbeat(GROUP, who, instance, generation, now=book.now, now_ms=book.now_ms)
            return ErrorCode.NONE

        book.ask(who, beat)

    return send


def leave(*leaving: tuple[str, str | None]) -> Callable[[Playbook], None]:
    def send(book: Playbook) -> None:
        def go() -> object:
            return book.carry_out(book.groups.leave(GROUP, list(leaving), now=book.now, now_ms=book.now_ms))

        book.ask("leaver", go)

    return send


def commit(
    offset: int,
    *,
    partition: int = 0,
    topic: str = "t",
    who: str = "",
    generation: int = -1,
    instance: str | None = None,
    metadata: str = "",
    epoch: int = -1,
    retention_ms: int = -1,
    old: bool = False,
    producer: int = -1,
    topic_id: bytes = NO_TOPIC_ID,
) -> Callable[[Playbook], None]:
    """With a producer: inside its transaction."""

    def send(book: Playbook) -> None:
        committer = Committer(who, instance, generation)
        commits = [Commit(topic, partition, offset, epoch, metadata, topic_id)]

        def go() -> object:
            if producer >= 0:
                decided = book.groups.commit_in_transaction(GROUP, committer, commits, now_ms=book.now_ms)
            else:
                decided = book.groups.commit(
                    GROUP, committer, commits, now=book.now, now_ms=book.now_ms,
                    retention_ms=retention_ms, knows_epochs=not old,
                )  # fmt: skip
            return book.carry_out(decided, producer)[0]

        book.ask(who or "somebody", go)

    return send


# What is heard


def joined(who: str, **facts: object) -> Expected:
    return Expected(who, None, {"error": ErrorCode.NONE, **facts})


def assigned(who: str, assignment: bytes) -> Expected:
    return Expected(who, None, {"error": ErrorCode.NONE, "assignment": assignment})


def refused(who: str, code: ErrorCode, **facts: object) -> Expected:
    """By an answer that came with the ticket."""
    return Expected(who, None, {"error": code, **facts})


def told(who: str, answer: object = ErrorCode.NONE) -> Expected:
    """By an answer given at once: a code, or a list of codes."""
    return Expected(who, answer)


def _read(record: Record) -> tuple[object, object | None] | None:
    """What the bytes say, in the words of whoever decided it."""
    match read(record.key, record.value):
        case key, OffsetCommitValue() as value:
            return key, Committed.of(value)
        case said:
            return said
