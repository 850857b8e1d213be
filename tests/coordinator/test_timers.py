from __future__ import annotations

import random

from broker_lite.coordinator.timers import Timers


def test_each_key_is_over_once_in_the_order_of_time() -> None:
    timers: Timers[str] = Timers()
    timers.set("b", 2)
    timers.set("a", 1)
    assert timers.next_at == 1
    assert list(timers.over(0.9)) == []
    assert list(timers.over(2)) == ["a", "b"]
    assert list(timers.over(9)) == []
    assert timers.next_at is None


def test_a_deadline_that_was_moved_on_is_not_over_early() -> None:
    timers: Timers[str] = Timers()
    for at in range(1, 1000):
        timers.set("a", at)
    assert len(timers._heap) == 1, "moving on costs no memory"
    assert list(timers.over(998)) == []
    assert list(timers.over(999)) == ["a"]


def test_a_deadline_that_was_moved_forward_is_over_once() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 10)
    timers.set("a", 5)
    assert list(timers.over(5)) == ["a"]
    assert list(timers.over(20)) == []


def test_a_cancelled_deadline_never_comes() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 1)
    timers.cancel("a")
    assert "a" not in timers
    assert timers.next_at is None
    timers.set("a", 3)
    assert list(timers.over(2)) == []
    assert list(timers.over(3)) == ["a"]


def test_deadlines_that_were_cancelled_or_moved_forward_leave_nothing_behind() -> None:
    timers: Timers[str] = Timers()
    timers.set("stays", 5000)
    for number in range(10_000):
        timers.set(f"gone {number}", 1800)
        timers.cancel(f"gone {number}")
        timers.set("stays", 5000)
        timers.set("stays", 4000 - number / 10)
    assert len(timers._heap) < 200
    assert len(timers._queued) < 200
    assert list(timers.over(3000.05)) == []
    assert list(timers.over(3001)) == ["stays"]


def test_whatever_is_set_and_cancelled_each_deadline_comes_once_and_on_time() -> None:
    chance = random.Random(1)
    timers: Timers[int] = Timers()
    due: dict[int, float] = {}
    now = 0.0
    for _ in range(20_000):
        key, at = chance.randrange(300), now + chance.choice((0.5, 5, 500)) * chance.random()
        if chance.random() < 0.6:
            timers.set(key, at)
            due[key] = at
        else:
            timers.cancel(key)
            due.pop(key, None)
        now += 0.01
        over = sorted(key for key, at in due.items() if at <= now)
        assert sorted(timers.over(now)) == over
        for key in over:
            del due[key]
        assert timers.next_at is None or not due or timers.next_at <= min(due.values())
