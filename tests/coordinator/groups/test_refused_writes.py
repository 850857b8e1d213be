"""What a group is after its log refused a record: as it was, and on its way again when the log takes records."""

from __future__ import annotations

from contextlib import suppress

import pytest

from broker_lite.coordinator.groups.classic import ClassicGroup
from broker_lite.coordinator.groups.consumer import ConsumerGroup
from broker_lite.coordinator.groups.settings import ConsumerSettings, GroupSettings
from broker_lite.coordinator.groups.state import State
from broker_lite.errors import CoordinatorNotAvailable, ErrorCode, MessageTooLarge
from tests.coordinator.groups.test_consumer_groups import Consumer, group_of, settle
from tests.coordinator.groups.test_migration import classic_pair
from tests.coordinator.playbook import (
    GROUP,
    Playbook,
    assigned,
    commit,
    heartbeat,
    join,
    joined,
    leave,
    sync,
    told,
    waits,
)

NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.fixture
def book() -> Playbook:
    book = Playbook(GroupSettings(consumer=lambda _: ConsumerSettings(session_ms=10_000)))
    book.topics["t"] = 4
    return book


def pair(book: Playbook) -> tuple[Consumer, Consumer]:
    a, b = Consumer(book, "a", "t"), Consumer(book, "b", "t")
    settle(a, b)
    return a, b


def stay(book: Playbook, *consumers: Consumer, seconds: int) -> None:
    for _ in range(seconds):
        for consumer in consumers:
            with suppress(CoordinatorNotAvailable):
                consumer.beat()
        book.wait(1)


def test_a_consumer_that_dies_while_the_disk_refuses_is_out_when_it_heals(book: Playbook) -> None:
    a, _ = pair(book)
    book.disk_fails = True
    stay(book, a, seconds=30)
    assert set(group_of(book).members) == {"a", "b"}
    book.disk_fails = False
    stay(book, a, seconds=8)
    assert set(group_of(book).members) == {"a"}
    assert len(a.owns) == 4


def test_a_consumer_that_leaves_while_the_disk_refuses_is_out_when_its_session_ends(book: Playbook) -> None:
    a, b = pair(book)
    book.disk_fails = True
    with pytest.raises(CoordinatorNotAvailable):
        b.say(epoch=-1)
    assert b.say(epoch=b.epoch).epoch == b.epoch, "it is still a member"
    book.disk_fails = False
    stay(book, a, seconds=12)
    assert set(group_of(book).members) == {"a"}
    assert len(a.owns) == 4


def test_a_member_that_does_not_give_up_in_time_is_out_when_the_disk_heals(book: Playbook) -> None:
    a, b = Consumer(book, "a", "t").beat(), Consumer(book, "b", "t").beat()
    a.say(epoch=2, owned=a.owns)
    book.disk_fails = True
    for _ in range(8):
        a.say(epoch=2)
        stay(book, b, seconds=5)
    book.disk_fails = False
    stay(book, b, seconds=6)
    assert set(group_of(book).members) == {"b"}
    assert len(b.owns) == 4


def test_a_member_whose_heartbeats_cannot_be_written_is_alive(book: Playbook) -> None:
    a = Consumer(book, "a", "t").beat()
    book.topics["t"] = 6
    book.disk_fails = True
    stay(book, a, seconds=30)
    book.disk_fails = False
    assert len(a.beat().owns) == 6
    assert a.epoch == 3, "it was never out"


def test_attempts_at_an_expiry_become_rare_while_the_disk_refuses(book: Playbook) -> None:
    pair(book)
    book.disk_fails = True
    attempts = 0
    fire = book.groups.fire

    def counted(keys, **now):  # type: ignore[no-untyped-def]
        nonlocal attempts
        attempts += 1
        return fire(keys, **now)

    book.groups.fire = counted  # type: ignore[method-assign]
    book.wait(610)
    assert 100 < attempts < 130
    book.groups.fire = fire  # type: ignore[method-assign]
    book.disk_fails = False
    book.wait(5)
    assert group_of(book).members == {}


def test_who_expires_together_is_fenced_together_and_the_rest_is_a_classic_group(book: Playbook) -> None:
    """Decided one by one, neither would have known of the other: a consumer group of classic members was left."""
    classic_pair(book)
    settle(Consumer(book, "x", "t"), Consumer(book, "y", "t"))
    book.wait(12)
    assert set(book.classic().members) == {"a", "b"}


def test_a_classic_member_that_expires_with_the_last_consumer_does_not_take_the_group_along() -> None:
    book = Playbook(GroupSettings(consumer=lambda _: ConsumerSettings(session_ms=30_000)))
    a, b = classic_pair(book)
    for _ in range(5):
        a.run()
        b.run()
    Consumer(book, "x", "t").beat()
    book >> heartbeat("b", generation=b.generation)
    book.heard.clear()
    book.wait(20)
    with suppress(AssertionError):
        a.run()
    book.wait(20)
    assert set(book.classic().members) == {"a"}


def test_an_upgrade_that_is_refused_lets_those_wait_on_who_wait(book: Playbook) -> None:
    a, b = classic_pair(book)
    book >> join("a", member="a", protocols=(*a.protocols, ("range", b"")), session=30, rebalance=30) << waits
    book.disk_fails = True
    with pytest.raises(CoordinatorNotAvailable):
        Consumer(book, "x", "t").beat()
    book.disk_fails = False
    assert isinstance(book.groups.group(GROUP), ClassicGroup)
    book.wait(1) << waits
    book >> join("b", member="b", protocols=b.protocols, session=30, rebalance=30)
    book << joined("a", generation=2) << joined("b", generation=2)


def test_a_round_goes_on_to_its_end_after_a_refused_upgrade(book: Playbook) -> None:
    """Its time-out was taken back with the upgrade."""
    a, _ = classic_pair(book)
    book >> join("a", member="a", protocols=(*a.protocols, ("range", b"")), session=30, rebalance=30) << waits
    book.disk_fails = True
    with pytest.raises(CoordinatorNotAvailable):
        Consumer(book, "x", "t").beat()
    book.disk_fails = False
    book.wait(31) << joined("a", generation=2)


def test_a_downgrade_that_is_refused_comes_when_the_disk_heals(book: Playbook) -> None:
    a, b = classic_pair(book)
    x = Consumer(book, "x", "t").beat()
    book.disk_fails = True
    with pytest.raises(CoordinatorNotAvailable):
        x.say(epoch=-1)
    assert isinstance(book.groups.group(GROUP), ConsumerGroup)
    for _ in range(12):
        for one in (a, b):
            book >> heartbeat(one.name, generation=one.generation)
        book.wait(1)
    book.disk_fails = False
    for _ in range(5):
        for one in (a, b):
            book >> heartbeat(one.name, generation=one.generation)
        book.wait(1)
    assert set(book.classic().members) == {"a", "b"}


def test_a_group_too_large_for_a_classic_record_stays_what_it_is_without_its_last_consumer(book: Playbook) -> None:
    classic_pair(book)
    x = Consumer(book, "x", "t").beat()
    group = group_of(book)
    fired = book.groups.fire([("session", GROUP, "x")], now=book.now, now_ms=book.now_ms)
    assert fired.is_atomic
    assert fired.undo is not None
    fired.undo(MessageTooLarge("the batch has 2 bytes, the topic allows 1"))
    book.wait(1)
    assert set(group.members) == {"a", "b"}
    assert book.groups.group(GROUP) is group
    assert x.refused(epoch=x.epoch) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_consumer_group_stays_one_if_a_classic_join_is_refused(group: Playbook) -> None:
    group.topics["t"] = 4
    Consumer(group, "c", "t").beat().say(epoch=-1)
    before = group.groups.group(GROUP)
    group.disk_fails = True
    group >> join("a") << told("a", NOT_AVAILABLE)
    assert group.groups.group(GROUP) is before
    group.disk_fails = False
    group >> join("b") << waits
    group.wait(0.2) << joined("b", generation=1, leader="b")
    assert set(group.classic().members) == {"b"}


def test_a_group_whose_end_is_not_written_goes_on_gathering(group: Playbook) -> None:
    group >> join("a")
    group.wait(0.2) << joined("a")
    group >> sync("a", {"a": b"p0"}) << assigned("a", b"p0")
    group.disk_fails = True
    group >> leave(("a", None)) << told("leaver", NOT_AVAILABLE)
    assert group.classic().state is State.PREPARING_REBALANCE
    group.wait(10)
    group.disk_fails = False
    group.wait(1)
    assert group.classic().state is State.EMPTY
    assert group.restart().classic().state is State.EMPTY


def test_who_comes_while_the_end_of_a_group_is_not_written_leads_it(group: Playbook) -> None:
    group >> join("a", protocol_type="connect")
    group.wait(0.2) << joined("a")
    group >> sync("a", {"a": b"p0"}) << assigned("a", b"p0")
    group.disk_fails = True
    group.wait(15)
    assert not group.classic().members
    group >> join("b") << joined("b", generation=2, leader="b")
    group >> sync("b", {"b": b"p0"}, generation=2) << told("b", NOT_AVAILABLE)
    group.disk_fails = False
    group >> join("b", member="b") << joined("b", generation=3, leader="b")
    group >> sync("b", {"b": b"p0"}, generation=3) << assigned("b", b"p0")


def test_followers_hear_that_the_assignment_could_not_be_written(group: Playbook) -> None:
    group >> join("a") >> join("b")
    group.wait(0.3) << joined("a") << joined("b")
    group >> sync("b") << waits
    group.disk_fails = True
    group >> sync("a", {"a": b"0", "b": b"1"}) << told("a", NOT_AVAILABLE) << told("b", NOT_AVAILABLE)
    group.disk_fails = False
    group >> join("b", member="b") << waits
    group >> join("a", member="a") << joined("a", generation=2) << joined("b", generation=2)


def test_static_members_that_are_all_away_do_not_stop_the_clock(group: Playbook) -> None:
    """However short they wanted to be waited for."""
    group >> join("a", instance="i", rebalance=0) >> join("b", instance="j")
    group.wait(0.2) << joined("a") << joined("b")
    group >> sync("b", instance="j") << waits
    group >> sync("a", {}, instance="i") << assigned("a", b"") << assigned("b", b"")
    group.heard.clear()
    group >> leave(("", "j")) << told("leaver", [ErrorCode.NONE])
    group.wait(20)
    assert group.classic().state is State.EMPTY


def test_offsets_of_a_deleted_topic_go_when_the_disk_heals(group: Playbook) -> None:
    group.topics["t"] = 1
    old = group.topics.get("t")
    assert old is not None
    group >> commit(7, topic_id=old.id) << told("somebody")
    del group.topics["t"]
    group.disk_fails = True
    with pytest.raises(CoordinatorNotAvailable):
        group.carry_out(group.groups.on_topic_deleted("t", now=group.now, now_ms=group.now_ms))
    group.topics["t"] = 1
    new = group.topics.get("t")
    assert new is not None
    assert new.id != old.id
    assert group.committed().offset == -1, "it is not the new topic's"
    group.wait(10)
    group.disk_fails = False
    group >> commit(3, partition=1, topic_id=new.id) << told("somebody")
    group.wait(5)
    assert group.groups.offsets.get(GROUP, "t", 0) is None
    assert group.committed(1).offset == 3


def test_offsets_of_a_topic_that_went_before_the_start_go_after_it(group: Playbook) -> None:
    group.topics["t"] = 1
    old = group.topics.get("t")
    assert old is not None
    group >> commit(7, topic_id=old.id) << told("somebody")
    group >> commit(8, partition=1) << told("somebody")
    del group.topics["t"]
    group.topics["t"] = 1
    group.restart().wait(0.1)
    assert group.groups.offsets.get(GROUP, "t", 0) is None
    assert group.committed(1).offset == 8, "it does not say of which topic it is"


def test_members_of_a_decision_that_was_written_in_part_have_sessions(book: Playbook) -> None:
    pair(book)
    book.disk_fails, book.disk_takes = True, 1
    with pytest.raises(CoordinatorNotAvailable):
        Consumer(book, "c", "t").beat()
    book.disk_fails = False
    assert set(group_of(book).members) == {"a", "b", "c"}
    book.wait(11)
    assert group_of(book).members == {}


def test_a_refused_static_return_leaves_the_seat_to_the_old_id(group: Playbook) -> None:
    group >> join("a", instance="i")
    group.wait(0.2) << joined("a")
    group >> sync("a", {"a": b"p0"}, instance="i") << assigned("a", b"p0")
    group.disk_fails = True
    group >> join("a2", instance="i") << told("a2", NOT_AVAILABLE)
    group.disk_fails = False
    group >> heartbeat("a", instance="i") << told("a")
    group.wait(11)
    assert group.classic().state is State.EMPTY, "the old id has its session still"
