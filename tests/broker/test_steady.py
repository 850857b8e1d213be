"""Wall time for those who delete."""

from __future__ import annotations

import pytest

from broker_lite.broker.steady import BELIEVED_AFTER, SteadyTime
from broker_lite.clock import ManualClock

NOW = 1_700_000_000_000
YEAR = 365 * 86_400.0


def test_time_that_passes_is_followed() -> None:
    clock = ManualClock(NOW)
    time = SteadyTime(clock)
    for seconds in (1, 3600, 10 * YEAR):
        clock.advance(seconds)
        assert time.now_ms() == clock.now_ms()


@pytest.mark.parametrize("leap", [3600.0, 86_400.0, 74 * YEAR], ids=["an hour", "a day", "to the next century"])
def test_a_leap_forward_is_not_believed_for_a_day(leap: float) -> None:
    clock = ManualClock(NOW)
    time = SteadyTime(clock)
    clock.jump_wall(leap)
    assert time.now_ms() == NOW
    clock.advance(BELIEVED_AFTER - 1)
    assert time.now_ms() == NOW + (BELIEVED_AFTER - 1) * 1000
    clock.advance(1)
    assert time.now_ms() == clock.now_ms()


@pytest.mark.parametrize("leap", [-3600.0, -86_400.0, -NOW / 1000], ids=["an hour", "a day", "to 1970"])
def test_a_step_back_is_believed_at_once_and_the_way_forward_again_is_not(leap: float) -> None:
    clock = ManualClock(NOW)
    time = SteadyTime(clock)
    clock.jump_wall(leap)
    assert time.now_ms() == clock.now_ms()
    clock.jump_wall(-leap)
    assert time.now_ms() == NOW + round(leap * 1000)


def test_a_leap_that_is_taken_back_leaves_no_trace() -> None:
    clock = ManualClock(NOW)
    time = SteadyTime(clock)
    clock.jump_wall(YEAR)
    time.now_ms()
    clock.advance(BELIEVED_AFTER / 2)
    clock.jump_wall(-YEAR)
    assert time.now_ms() == clock.now_ms()
    clock.jump_wall(YEAR)
    time.now_ms()
    clock.advance(BELIEVED_AFTER / 2 + 1)
    assert time.now_ms() < clock.now_ms()
