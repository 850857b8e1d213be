from __future__ import annotations

import pytest

from broker_lite.config.bounds import check_bounds
from broker_lite.config.sources import Settings, Source
from broker_lite.errors import StartRefused


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (
            {"group.consumer.session.timeout.ms": "6000"},
            "group.consumer.min.session.timeout.ms (45000) must be less than or equal to "
            "group.consumer.session.timeout.ms (6000)",
        ),
        (
            {"group.consumer.session.timeout.ms": "70000"},
            "group.consumer.session.timeout.ms (70000) must be less than or equal to "
            "group.consumer.max.session.timeout.ms (60000)",
        ),
        (
            {"group.consumer.min.heartbeat.interval.ms": "20000"},
            "group.consumer.min.heartbeat.interval.ms (20000) must be less than or equal to "
            "group.consumer.max.heartbeat.interval.ms (15000)",
        ),
        (
            {"group.consumer.assignment.interval.ms": "16000"},
            "group.consumer.assignment.interval.ms (16000) must be less than or equal to "
            "group.consumer.max.assignment.interval.ms (15000)",
        ),
        (
            {
                "group.consumer.min.session.timeout.ms": "1000",
                "group.consumer.session.timeout.ms": "5000",
            },
            "group.consumer.heartbeat.interval.ms (5000) must be less than group.consumer.session.timeout.ms (5000)",
        ),
    ],
)
def test_keys_that_contradict_each_other_are_refused(said: dict[str, str], text: str) -> None:
    with pytest.raises(StartRefused) as refused:
        check_bounds(Settings({Source.FLAG: said}))
    assert str(refused.value) == text


def test_the_defaults_agree_and_so_does_a_short_session_with_room_for_it() -> None:
    check_bounds(Settings())
    check_bounds(
        Settings(
            {
                Source.FLAG: {
                    "group.consumer.min.session.timeout.ms": "1000",
                    "group.consumer.session.timeout.ms": "6000",
                }
            }
        )
    )
