"""A mistake in what the broker does by itself is told, costs that step, and never costs the broker."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
import structlog.testing

from broker_lite.broker.broker import Broker
from broker_lite.clock import ManualClock
from broker_lite.config.start import TopicAtStart
from tests.support.talk import NOW, talking


class Bug(Exception):
    pass


def mistaken(steps: list[str]) -> object:
    def step(*_: object) -> None:
        steps.append("")
        raise Bug("of ours")

    return step


def of_upkeep(broker: Broker, patch: pytest.MonkeyPatch, steps: list[str]) -> None:
    patch.setattr(broker.upkeep.retention, "tick", mistaken(steps))


def of_transactions(broker: Broker, patch: pytest.MonkeyPatch, steps: list[str]) -> None:
    patch.setattr(broker.transactions, "tick", mistaken(steps))


def of_groups(broker: Broker, patch: pytest.MonkeyPatch, steps: list[str]) -> None:
    patch.setattr(broker.groups, "_tick", mistaken(steps))
    broker.groups._expire_at = 0.0


def of_the_cleaner(broker: Broker, patch: pytest.MonkeyPatch, steps: list[str]) -> None:
    patch.setattr(broker.upkeep.cleaner, "clean_one", mistaken(steps))


@pytest.mark.parametrize("mistake", [of_upkeep, of_transactions, of_groups, of_the_cleaner])
async def test_a_mistake_in_the_background_is_told_and_the_step_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: object
) -> None:
    clock = ManualClock(NOW)
    steps: list[str] = []
    assert callable(mistake)
    async with talking(tmp_path, clock, topics=[TopicAtStart("t", 1, {})]) as talk:
        with structlog.testing.capture_logs() as events:
            mistake(talk.broker, monkeypatch, steps)
            with anyio.fail_after(10):
                while len(steps) < 3:
                    clock.advance(1)
                    await anyio.sleep(0)
        told = [event for event in events if event["event"] == "background.failed"]
        assert len(told) >= 2, events
        monkeypatch.undo()
        assert (await talk.produce("t", b"still here")).error_code == 0
