from __future__ import annotations

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
