"""Keys that bound each other: a broker whose keys contradict each other does not start. Kafka refuses the same ones."""

from __future__ import annotations

from broker_lite.config import coordination as keys
from broker_lite.config.key import Key
from broker_lite.config.sources import Settings
from broker_lite.errors import StartRefused

_RANGES: tuple[tuple[Key[int], Key[int], Key[int]], ...] = (
    (
        keys.GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
        keys.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
        keys.GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
    ),
    (
        keys.GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
        keys.GROUP_CONSUMER_SESSION_TIMEOUT_MS,
        keys.GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
    ),
    (
        keys.GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS,
        keys.GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS,
        keys.GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS,
    ),
)


def check_bounds(settings: Settings) -> None:
    """StartRefused names the first two keys that contradict each other."""
    for least, value, most in _RANGES:
        _at_most(settings, least, most)
        _at_most(settings, least, value)
        _at_most(settings, value, most)
    heartbeat, session = keys.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS, keys.GROUP_CONSUMER_SESSION_TIMEOUT_MS
    if settings.get(heartbeat) >= settings.get(session):
        raise StartRefused(
            f"{heartbeat.name} ({settings.get(heartbeat)}) must be less than {session.name} ({settings.get(session)})"
        )


def _at_most(settings: Settings, one: Key[int], other: Key[int]) -> None:
    if settings.get(one) > settings.get(other):
        raise StartRefused(
            f"{one.name} ({settings.get(one)}) must be less than or equal to {other.name} ({settings.get(other)})"
        )
