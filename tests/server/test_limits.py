from __future__ import annotations

import random

from broker_lite.server.limits import UNLIMITED, Budget, Complaints, Doors, Limits, overrides


class Frame:
    """A frame in the making that wants `size` bytes in steps."""

    def __init__(self, budget: Budget, size: int) -> None:
        self.budget = budget
        self.left = size
        self.held = 0
        self.step = 0
        self.waiting = False

    def grow(self, step: int) -> None:
        self.step = min(step, self.left)
        self.waiting = not self.budget.take(self, self.step)
        if not self.waiting:
            self._have()

    def go_on(self) -> None:
        self.waiting = False
        self._have()

    def _have(self) -> None:
        self.held += self.step
        self.left -= self.step

    def done(self) -> None:
        held, self.held = self.held, 0
        self.budget.give_back(self, held)


def test_within_the_limit_nobody_waits() -> None:
    budget = Budget(100)
    frames = [Frame(budget, 10) for _ in range(10)]
    for frame in frames:
        frame.grow(10)
    assert budget.used == 100
    assert not any(frame.waiting for frame in frames)


def test_beyond_the_limit_one_goes_on_and_the_others_stand_in_line() -> None:
    budget = Budget(100)
    first, second, third = (Frame(budget, 100) for _ in range(3))
    for frame in (first, second, third):
        frame.grow(40)
    assert [first.waiting, second.waiting, third.waiting] == [False, False, False]
    third.grow(60)
    first.grow(60)
    assert [first.waiting, third.waiting] == [True, False]
    third.done()
    assert not first.waiting
    assert budget.used == 140


def test_a_frame_that_is_dropped_no_longer_waits() -> None:
    budget = Budget(10)
    holder, gone, next_one = (Frame(budget, 20) for _ in range(3))
    holder.grow(20)
    gone.grow(20)
    next_one.grow(20)
    budget.leave(gone)
    holder.done()
    assert gone.waiting
    assert not next_one.waiting
    next_one.done()
    assert budget.used == 0


def test_whatever_the_order_everybody_finishes_and_the_bound_holds() -> None:
    chance = random.Random(7)
    for _ in range(200):
        budget = Budget(100)
        frames = [Frame(budget, chance.randint(1, 80)) for _ in range(20)]
        left = list(frames)
        while left:
            able = [frame for frame in left if not frame.waiting]
            assert able, "everybody waits for everybody"
            frame = chance.choice(able)
            if frame.left:
                frame.grow(chance.randint(1, 40))
            else:
                frame.done()
                left.remove(frame)
            assert budget.used <= 100 + 80
        assert budget.used == 0


def test_no_limit_is_no_limit() -> None:
    budget = Budget(-1)
    frame = Frame(budget, 2**40)
    frame.grow(2**40)
    assert not frame.waiting


def test_doors_count_per_address() -> None:
    doors = Doors(Limits(max_connections=3, max_connections_per_ip=2))
    assert doors.enter("a")
    assert doors.enter("a")
    assert not doors.enter("a")
    assert doors.enter("b")
    assert doors.full
    doors.leave("a")
    assert not doors.full
    assert doors.enter("a")


def test_doors_obey_other_limits_at_once() -> None:
    told: list[bool] = []
    doors = Doors(Limits(max_connections=1))
    doors.on_change = lambda: told.append(doors.full)
    assert doors.enter("a")
    doors.obey(Limits(max_connections=9, max_connections_per_ip=1, max_connections_of={"b": 2}))
    assert told == [False]
    assert [doors.enter(host) for host in "abbbc"] == [False, True, True, False, True]
    doors.obey(Limits(max_connections=2))
    assert doors.full


def test_other_limits_for_some_addresses_may_name_hosts() -> None:
    assert overrides(["127.0.0.1:3", "::1:4", "[::2]:5", "no such host:6"]) == {"127.0.0.1": 3, "::1": 4, "::2": 5}
    assert set(overrides(["localhost:7"]).values()) == {7}
    assert overrides(["a..b:1", "x" * 70 + ".org:2", "a\0b:3", "127.0.0.1:4"]) == {"127.0.0.1": 4}


def test_complaints_are_counted_when_they_are_no_longer_logged() -> None:
    complaints = Complaints()
    assert [complaints.may_log("a") for _ in range(12)] == [True] * 10 + [False] * 2
    assert complaints.may_log("b")
    assert complaints.new_minute() == {"a": 2}
    assert complaints.may_log("a")


def test_complaints_from_many_addresses_are_not_a_line_each() -> None:
    complaints = Complaints()
    logged = sum(complaints.may_log(f"2001:db8::{number:x}") for number in range(100_000))
    assert logged == Complaints.PER_MINUTE_OF_ALL
    assert complaints.new_minute() == {Complaints.OTHERS: 100_000 - logged}
    assert complaints.may_log("2001:db8::1")
    assert complaints.new_minute() == {}


def test_a_door_says_how_long_the_next_has_to_wait() -> None:
    doors = Doors(Limits(creation_rates={"": UNLIMITED, "A": 2, "B": UNLIMITED}))
    assert doors.paced
    assert [doors.came("A", 0.0) for _ in range(20)] == [0.0] * 20, "two a second, over ten seconds"
    assert doors.came("A", 0.0) == 0.5
    assert doors.came("B", 0.0) == 0.0
    assert [doors.came("A", 0.0) for _ in range(5)][-1] == 1.0, "a sample at most"
    doors.obey(Limits())
    assert not doors.paced


def test_all_listeners_together_have_a_pace_too() -> None:
    doors = Doors(Limits(creation_rates={"": 1, "A": 1, "B": 1}))
    assert [doors.came(listener, 0.0) for listener in "ABABABABAB"] == [0.0] * 10
    assert doors.came("A", 0.0) > 0
    assert Doors(Limits(creation_rates={"": 0})).came("A", 0.0) == 1.0


def test_a_budget_is_tight_while_somebody_waits_or_nothing_is_left() -> None:
    budget = Budget(100)
    first, second = Frame(budget, 200), Frame(budget, 200)
    first.grow(60)
    assert not budget.tight
    second.grow(60)
    assert budget.tight, "the second is let through, and with that nothing is left"
    second.done()
    assert not budget.tight
    budget.add(50)
    assert budget.tight
