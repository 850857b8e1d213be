"""Groups of thousands: what one request costs does not grow with the group, and what all of them cost grows with it.

Steps are counted, not timed: calls of functions, and bytes that a step takes for a while.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable

import pytest

from broker_lite.coordinator.groups.assignors import Reader, uniform
from broker_lite.coordinator.groups.heartbeat import Beat
from broker_lite.coordinator.groups.settings import ConsumerSettings, GroupSettings
from broker_lite.coordinator.groups.state import State
from broker_lite.coordinator.schemas import ConsumerGroupTargetAssignmentMetadataKey
from tests.coordinator.groups.test_consumer_groups import group_of
from tests.coordinator.playbook import GROUP, Playbook, heartbeat, join, leave, sync

SIZES = (200, 400)
SUBSCRIPTION = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"


def calls(step: Callable[[], object]) -> int:
    """How many functions are called, ours and others'."""
    count = 0

    def note(*_: object) -> None:
        nonlocal count
        count += 1

    gc.disable()  # whoever is called when something is collected does not count
    sys.setprofile(note)
    try:
        step()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def peak(step: Callable[[], object]) -> int:
    """How many bytes a step takes at most."""
    tracemalloc.start()
    try:
        step()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def beat(book: Playbook, name: str, epoch: int = 0) -> int:
    asked = Beat(group=GROUP, member_id=name, epoch=epoch)
    if epoch == 0:
        asked.rebalance_timeout_ms, asked.topics, asked.owned = 60_000, ["t"], frozenset()
    return book.carry_out(book.groups.beat(asked, now=book.now, now_ms=book.now_ms)).epoch


def consumers(size: int) -> Playbook:
    book = Playbook(GroupSettings(consumer=lambda _: ConsumerSettings(session_ms=100_000, assignment_interval_ms=1000)))
    book.topics["t"] = size * 2
    for number in range(size):
        beat(book, f"m{number}")
    return book


def classic(size: int) -> Playbook:
    book = Playbook()
    for number in range(size):
        book >> join(f"m{number}", protocols=(("range", SUBSCRIPTION),))
    book.wait(0.3)
    for number in range(size - 1, -1, -1):
        book >> sync(f"m{number}", {f"m{number}": b"p" for number in range(size)} if number == 0 else None)
    assert book.classic().state is State.STABLE
    book.heard.clear()
    return book


def is_linear(costs: list[int]) -> bool:
    return costs[1] < 2.3 * costs[0]


def test_a_heartbeat_of_a_consumer_costs_the_same_in_any_group() -> None:
    def cost(size: int, measured: Callable[[Callable[[], object]], int]) -> int:
        book = consumers(size)
        epoch = beat(book, "m1", group_of(book).members["m1"].epoch)
        beat(book, "m1", epoch)  # what is compiled when it is first called is compiled now
        return measured(lambda: beat(book, "m1", epoch))

    assert cost(200, calls) == cost(400, calls)
    assert cost(1000, peak) < 10_000, "it copies its group"


def test_a_heartbeat_of_a_classic_member_costs_the_same_in_any_group() -> None:
    def cost(size: int) -> int:
        book = classic(size) >> heartbeat("m1")
        steps = calls(lambda: book >> heartbeat("m1"))
        book.heard.clear()
        return steps

    assert cost(200) == cost(400)


def test_all_consumers_that_expire_at_once_cost_as_much_as_there_are() -> None:
    def cost(size: int) -> int:
        book = consumers(size)
        steps = calls(lambda: book.wait(101))
        assert group_of(book).members == {}
        assert group_of(book).owners == {}
        return steps

    assert is_linear([cost(size) for size in SIZES])


@pytest.mark.parametrize("how", ["expire", "leave"])
def test_all_classic_members_that_go_cost_as_much_as_there_are(how: str) -> None:
    def cost(size: int) -> int:
        book = classic(size)
        gone = [(f"m{number}", None) for number in range(size)]
        steps = calls(lambda: book.wait(100) if how == "expire" else book >> leave(*gone))
        assert book.classic().state is State.EMPTY
        book.heard.clear()
        return steps

    assert is_linear([cost(size) for size in SIZES])


def test_a_round_of_a_classic_group_costs_as_much_as_it_has_members() -> None:
    assert is_linear([calls(lambda size=size: classic(size)) for size in SIZES])  # type: ignore[misc]


def test_a_large_group_is_assigned_now_and_then_however_many_come() -> None:
    """The broker's default is at once: `group.consumer.assignment.interval.ms` is 0."""
    book = Playbook(GroupSettings(consumer=lambda _: ConsumerSettings(session_ms=100_000)))
    book.topics["t"] = 10
    for number in range(1000):
        beat(book, f"m{number}")
    before = len(book.log)
    for number in range(1000):
        beat(book, f"n{number}")
        book.wait(0.001)
    written = [record.spoken[0] for record, _, _ in book.log[before:] if record.spoken is not None]
    assert 5 < sum(isinstance(key, ConsumerGroupTargetAssignmentMetadataKey) for key in written) < 12
    book.wait(1)
    beat(book, "m0", group_of(book).members["m0"].epoch)
    group = group_of(book)
    assert group.assignment_epoch == group.epoch
    assert len(frozenset().union(*group.target.values())) == 10


def test_members_that_read_different_topics_are_assigned_in_steps_as_many_as_there_are() -> None:
    def cost(size: int) -> int:
        t, u = b"t" * 16, b"u" * 16
        readers = {f"m{at}": Reader(frozenset([t, u] if at % 2 else [t])) for at in range(size)}
        return calls(lambda: uniform(readers, {t: size, u: size}))

    assert is_linear([cost(size) for size in SIZES])
