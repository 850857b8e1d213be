from __future__ import annotations

import pytest

from broker_lite.coordinator.groups.consumer import ConsumerGroup, ConsumerState, MemberState, Places
from broker_lite.coordinator.groups.heartbeat import Beat, Beaten
from broker_lite.coordinator.groups.settings import ConsumerSettings, GroupSettings
from broker_lite.errors import BrokerError, ErrorCode
from tests.coordinator.playbook import GROUP, Playbook, assigned, commit, heartbeat, join, joined, leave, sync, told


class Consumer:
    """A member as clients are written: it says what it owns, and obeys."""

    def __init__(
        self, book: Playbook, name: str, *topics: str, instance: str | None = None, pattern: str | None = None
    ) -> None:
        self.book, self.name, self.instance = book, name, instance
        self.topics: list[str] | None = list(topics) if topics or pattern is None else None
        self.pattern = pattern
        self.assignor: str | None = None
        self.epoch = 0
        self.owns: Places = frozenset()
        self.is_unsure = False
        """An answer was lost: then a client says everything again."""

    def say(self, **more: object) -> Beaten:
        """One request, exactly."""
        asked = Beat(group=GROUP, member_id=self.name, instance_id=self.instance, **more)  # type: ignore[arg-type]
        return self.book.carry_out(self.book.groups.beat(asked, now=self.book.now, now_ms=self.book.now_ms))

    def beat(self) -> Consumer:
        """What a client would say now; what it hears, it does."""
        if self.epoch == 0 or self.is_unsure:
            heard = self.say(
                epoch=self.epoch, rebalance_timeout_ms=30_000, topics=self.topics, pattern=self.pattern,
                assignor=self.assignor, owned=self.owns,
            )  # fmt: skip
            self.is_unsure = False
        else:
            heard = self.say(epoch=self.epoch, owned=self.owns)
        self.epoch = heard.epoch
        if heard.assignment is not None:
            self.owns = heard.assignment
        return self

    def refused(self, **more: object) -> ErrorCode:
        with pytest.raises(BrokerError) as refused:
            self.say(**more)
        return refused.value.code

    @property
    def partitions(self) -> list[str]:
        return sorted(f"{topic_id.rstrip(b'.').split(b'.')[0].decode()}{at}" for topic_id, at in self.owns)


@pytest.fixture
def book() -> Playbook:
    book = Playbook()
    book.topics["t"] = 4
    return book


def group_of(book: Playbook) -> ConsumerGroup:
    group = book.groups.group(GROUP)
    assert isinstance(group, ConsumerGroup)
    return group


def settle(*consumers: Consumer) -> None:
    for _ in range(4):
        for consumer in consumers:
            consumer.beat()


def test_the_first_member_gets_everything_at_once(book: Playbook) -> None:
    a = Consumer(book, "a", "t").beat()
    assert (a.epoch, len(a.owns)) == (2, 4)
    assert a.say(epoch=2) == Beaten("a", 2, 5000, None), "nothing new is said by silence"
    assert group_of(book).state is ConsumerState.STABLE


def test_a_partition_is_given_only_when_its_owner_gave_it_up(book: Playbook) -> None:
    a = Consumer(book, "a", "t").beat()
    b = Consumer(book, "b", "t").beat()
    assert (b.epoch, b.owns) == (3, frozenset())
    told_to_keep = a.say(epoch=2, owned=a.owns).assignment
    assert told_to_keep is not None
    assert len(told_to_keep) == 2
    assert group_of(book).members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert b.beat().owns == frozenset(), "a has not said that it let go"
    assert a.say(epoch=2, owned=told_to_keep).epoch == 3
    b.beat()
    assert len(b.owns) == 2
    assert not b.owns & told_to_keep
    assert group_of(book).state is ConsumerState.STABLE


def test_a_member_that_does_not_give_up_in_time_is_out(book: Playbook) -> None:
    a = Consumer(book, "a", "t").beat()
    b = Consumer(book, "b", "t").beat()
    a.say(epoch=2, owned=a.owns)
    for _ in range(7):
        book.wait(5)
        b.beat()
        if "a" in group_of(book).members:
            a.say(epoch=2)
    assert a.refused(epoch=2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(b.owns) == 4


def test_a_member_that_is_silent_is_out(book: Playbook) -> None:
    a, b = Consumer(book, "a", "t"), Consumer(book, "b", "t")
    settle(a, b)
    for _ in range(10):
        book.wait(5)
        a.beat()
    a.beat()
    assert len(a.owns) == 4
    assert b.refused(epoch=b.epoch) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_makes_room_at_once(book: Playbook) -> None:
    a, b = Consumer(book, "a", "t"), Consumer(book, "b", "t")
    settle(a, b)
    assert b.say(epoch=-1) == Beaten("b", -1)
    settle(a)
    assert len(a.owns) == 4
    assert a.say(epoch=-1).epoch == -1
    assert group_of(book).state is ConsumerState.EMPTY


def test_stale_epochs_are_fenced(book: Playbook) -> None:
    a, b = Consumer(book, "a", "t"), Consumer(book, "b", "t")
    settle(a, b)
    assert a.refused(epoch=a.epoch + 1) is ErrorCode.FENCED_MEMBER_EPOCH
    assert a.refused(epoch=a.epoch - 2) is ErrorCode.FENCED_MEMBER_EPOCH
    assert a.refused(epoch=a.epoch - 1, owned=b.owns) is ErrorCode.FENCED_MEMBER_EPOCH
    assert a.say(epoch=a.epoch - 1, owned=frozenset()).epoch == a.epoch, "perhaps the answer was lost"
    assert a.say(epoch=0, owned=frozenset(), rebalance_timeout_ms=1, topics=["t"]).assignment == a.owns
    assert Consumer(book, "x").refused(epoch=5) is ErrorCode.UNKNOWN_MEMBER_ID


def test_new_partitions_and_topics_are_shared_out(book: Playbook) -> None:
    a = Consumer(book, "a", "t", "u").beat()
    book.topics["t"] = 6
    assert len(a.beat().owns) == 6
    book.topics["u"] = 1
    assert len(a.beat().owns) == 7
    del book.topics["t"]
    assert len(a.beat().beat().owns) == 1


def test_a_changed_subscription_is_followed(book: Playbook) -> None:
    book.topics["u"] = 2
    a = Consumer(book, "a", "t").beat()
    heard = a.say(epoch=a.epoch, topics=["u"], owned=a.owns)
    assert heard.assignment == frozenset()
    a.owns = frozenset()
    assert a.beat().partitions == ["u0", "u1"]


def test_a_pattern_follows_the_topics_that_come_and_go(book: Playbook) -> None:
    a = Consumer(book, "a", pattern="t.*").beat()
    assert len(a.owns) == 4
    book.topics["t2"] = 1
    book.topics["not"] = 1
    assert len(a.beat().owns) == 5
    assert group_of(book).resolved == {"t.*": frozenset({"t", "t2"})}
    book.restart()
    assert group_of(book).resolved == {"t.*": frozenset({"t", "t2"})}
    a.say(epoch=a.epoch, pattern="", topics=["t"])
    assert group_of(book).resolved == {}


@pytest.mark.parametrize("pattern", ["(", "a{2000}", "(?=x)", "[z-a]"])
def test_what_is_no_pattern_is_refused(book: Playbook, pattern: str) -> None:
    a = Consumer(book, "a", pattern=pattern)
    code = a.refused(epoch=0, pattern=pattern, rebalance_timeout_ms=1, owned=frozenset())
    assert code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_hostile_pattern_costs_no_time(book: Playbook) -> None:
    book.topics["a" * 200 + "b"] = 1
    assert Consumer(book, "a", pattern="(a+)+(a+)+(a+)+$").beat().owns == frozenset()


def test_the_assignor_that_most_members_want_is_used(book: Playbook) -> None:
    book.topics["u"] = 4
    a, b, c = (Consumer(book, name, "t", "u") for name in "abc")
    a.assignor = b.assignor = "range"
    settle(a, b, c)
    assert group_of(book).assignor("uniform") == "range"
    assert a.partitions == ["t0", "t1", "u0", "u1"]


def test_static_members_come_back_to_their_seats(book: Playbook) -> None:
    a = Consumer(book, "a", "t", instance="i1").beat()
    twin = Consumer(book, "A", "t", instance="i1")
    first = {"epoch": 0, "topics": ["t"], "rebalance_timeout_ms": 1, "owned": frozenset()}
    assert twin.refused(**first) is ErrorCode.UNRELEASED_INSTANCE_ID
    assert twin.refused(epoch=2) is ErrorCode.FENCED_INSTANCE_ID
    epoch = group_of(book).epoch
    assert a.say(epoch=-2) == Beaten("a", -2)
    book.wait(40)
    twin.beat()
    assert (twin.epoch, len(twin.owns)) == (epoch, 4)
    assert group_of(book).epoch == epoch, "nobody else noticed"
    assert a.refused(epoch=2) is ErrorCode.FENCED_INSTANCE_ID
    assert set(group_of(book).members) == {"A"}


def test_a_static_member_that_does_not_come_back_loses_its_seat(book: Playbook) -> None:
    a = Consumer(book, "a", "t", instance="i1").beat()
    a.say(epoch=-2)
    book.wait(46)
    assert group_of(book).state is ConsumerState.EMPTY


def test_a_restart_keeps_epochs_and_assignments(book: Playbook) -> None:
    a, b = Consumer(book, "a", "t"), Consumer(book, "b", "t", instance="i")
    settle(a, b)
    before = group_of(book)
    book.wait(40).restart()
    after = group_of(book)
    assert (after.epoch, after.assignment_epoch, after.members, after.target, after.owners, after.static) == (
        before.epoch, before.assignment_epoch, before.members, before.target, before.owners, before.static,
    )  # fmt: skip
    book.wait(40)
    assert a.say(epoch=a.epoch).epoch == a.epoch, "everybody got a full new session"


def test_a_heartbeat_without_news_writes_nothing(book: Playbook) -> None:
    a, b = Consumer(book, "a", "t"), Consumer(book, "b", pattern="t")
    settle(a, b)
    written = len(book.log)
    settle(a, b)
    assert len(book.log) == written


@pytest.mark.parametrize(
    "wrong",
    [
        {"epoch": 0, "topics": ["t"], "owned": frozenset()},
        {"epoch": 0, "rebalance_timeout_ms": 1, "owned": frozenset()},
        {"epoch": 0, "topics": ["t"], "rebalance_timeout_ms": 1},
        {"epoch": 0, "topics": ["t"], "rebalance_timeout_ms": 1, "owned": frozenset({(b"x" * 16, 0)})},
        {"epoch": -3},
        {"epoch": -2},
        {"epoch": 1, "rack_id": ""},
    ],
)
def test_requests_that_make_no_sense(book: Playbook, wrong: dict[str, object]) -> None:
    assert Consumer(book, "a", "t").refused(**wrong) is ErrorCode.INVALID_REQUEST


def test_what_is_not_there_is_named(book: Playbook) -> None:
    a = Consumer(book, "a", "t")
    assert a.refused(epoch=1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert a.refused(epoch=-1) is ErrorCode.GROUP_ID_NOT_FOUND
    first = {"topics": ["t"], "rebalance_timeout_ms": 1, "owned": frozenset()}
    assert a.refused(epoch=0, assignor="none", **first) is ErrorCode.UNSUPPORTED_ASSIGNOR
    a.beat()
    assert Consumer(book, "b").refused(epoch=-1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_takes_nobody_more() -> None:
    book = Playbook(GroupSettings(consumer_max_size=1))
    a = Consumer(book, "a", "t").beat()
    b = Consumer(book, "b", "t")
    first = {"epoch": 0, "topics": ["t"], "rebalance_timeout_ms": 1, "owned": frozenset()}
    assert b.refused(**first) is ErrorCode.GROUP_MAX_SIZE_REACHED
    a.beat()


def test_a_group_has_a_session_and_an_interval_of_its_own() -> None:
    own = {GROUP: ConsumerSettings(session_ms=60_000, heartbeat_ms=15_000)}
    book = Playbook(GroupSettings(consumer=lambda group: own[group]))
    book.topics["t"] = 4
    a = Consumer(book, "a", "t").beat()
    assert a.say(epoch=2).interval_ms == 15_000
    book.wait(59)
    assert a.say(epoch=2).epoch == 2, "Kafka's 45 seconds do not hold here"
    own[GROUP] = ConsumerSettings(session_ms=46_000, heartbeat_ms=5_000)
    assert a.say(epoch=2).interval_ms == 5_000, "a change takes hold with the next heartbeat"
    book.wait(47)
    assert a.refused(epoch=2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restart_gives_members_the_session_of_their_group() -> None:
    book = Playbook(GroupSettings(consumer=lambda _: ConsumerSettings(session_ms=60_000)))
    book.topics["t"] = 4
    a = Consumer(book, "a", "t").beat()
    book.restart().wait(59)
    assert a.say(epoch=2).epoch == 2


def test_many_who_come_at_once_are_assigned_once_an_interval() -> None:
    """KIP-1263: a newcomer waits with nothing in the epoch of the last assignment, and everybody keeps what it has."""
    book = Playbook(GroupSettings(consumer=lambda _: ConsumerSettings(assignment_interval_ms=1000)))
    book.topics["t"] = 4
    a = Consumer(book, "a", "t").beat()
    assert (a.epoch, len(a.owns)) == (2, 4), "the first does not wait"
    b, c = Consumer(book, "b", "t").beat(), Consumer(book, "c", "t").beat()
    assert (b.epoch, b.owns, c.epoch, c.owns) == (2, frozenset(), 2, frozenset())
    assert len(a.beat().owns) == 4
    assert (group_of(book).epoch, group_of(book).assignment_epoch) == (4, 2)
    assert group_of(book).state is ConsumerState.ASSIGNING
    book.wait(1)
    settle(a, b, c)
    assert sorted(len(each.owns) for each in (a, b, c)) == [1, 1, 2]
    assert group_of(book).assignment_epoch == 4, "both newcomers by one assignment"


def test_commits_must_come_from_the_epoch(book: Playbook) -> None:
    a, b = Consumer(book, "a", "t"), Consumer(book, "b", "t")
    settle(a, b)
    book >> commit(1, who="a", generation=a.epoch) << told("a")
    book >> commit(1, who="a", generation=a.epoch + 1) << told("a", ErrorCode.STALE_MEMBER_EPOCH)
    book >> commit(1, who="a", generation=1) << told("a", ErrorCode.STALE_MEMBER_EPOCH)
    book >> commit(1, who="a", generation=a.epoch, old=True) << told("a", ErrorCode.UNSUPPORTED_VERSION)
    book >> commit(1, who="x", generation=a.epoch) << told("x", ErrorCode.UNKNOWN_MEMBER_ID)
    book >> commit(1) << told("somebody", ErrorCode.UNKNOWN_MEMBER_ID)
    book >> commit(1, who="a", generation=1, producer=7) << told("a", ErrorCode.ILLEGAL_GENERATION)
    a.say(epoch=-1)
    b.say(epoch=-1)
    book >> commit(1) << told("somebody")


def test_a_transaction_need_not_say_for_which_member_it_commits(book: Playbook) -> None:
    """Before KIP-447 it could not; who says something of itself is held to it."""
    settle(Consumer(book, "a", "t"))
    book >> commit(1, producer=7) << told("somebody")
    book >> commit(1, who="x", producer=7) << told("x", ErrorCode.UNKNOWN_MEMBER_ID)
    book >> commit(1, instance="seat", producer=7) << told("somebody", ErrorCode.UNKNOWN_MEMBER_ID)
    book >> commit(1, generation=2, producer=7) << told("somebody", ErrorCode.UNKNOWN_MEMBER_ID)


def test_offsets_are_read_in_the_epoch_or_by_nobody_in_particular(book: Playbook) -> None:
    a = Consumer(book, "a", "t").beat()
    book.groups.check_fetch(GROUP, "a", a.epoch)
    book.groups.check_fetch(GROUP, None, -1)
    for member, epoch, code in (
        ("a", a.epoch + 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", -1, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", a.epoch, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(BrokerError) as refused:
            book.groups.check_fetch(GROUP, member, epoch)
        assert refused.value.code is code


def test_an_admin_removes_members(book: Playbook) -> None:
    a, b = Consumer(book, "a", "t"), Consumer(book, "b", "t", instance="i")
    settle(a, b)
    book >> leave(("a", None), ("x", None), ("", "i"), ("", "j"))
    book << told("leaver", [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID])
    assert group_of(book).state is ConsumerState.EMPTY


def test_empty_groups_change_their_protocol_freely(book: Playbook) -> None:
    a = Consumer(book, "a", "t").beat()
    a.say(epoch=-1)
    book >> join("c")
    book.wait(0.2) << joined("c", generation=1)
    book >> sync("c") << assigned("c", b"")
    book >> leave(("c", None)) << told("leaver", [ErrorCode.NONE])
    assert len(Consumer(book, "b", "t").beat().owns) == 4
    book.restart()
    assert set(group_of(book).members) == {"b"}
    book >> heartbeat("c", generation=1) << told("c", ErrorCode.UNKNOWN_MEMBER_ID)


def test_an_empty_group_is_deleted_with_all_its_records(book: Playbook) -> None:
    a = Consumer(book, "a", pattern="t").beat()
    a.say(epoch=-1)
    book.carry_out(book.groups.delete_group(GROUP))
    kept: dict[bytes, bytes | None] = {record.key: record.value for record, _, _ in book.log}
    assert set(kept.values()) == {None}
