"""Settings with which the broker's background work meets live work thousands of times in a minute."""

from __future__ import annotations

from collections.abc import Mapping

BUSY = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "10",
    "log.retention.check.interval.ms": "10",
    "offsets.retention.check.interval.ms": "10",
    "log.cleaner.backoff.ms": "10",
}


def as_arguments(settings: Mapping[str, str] = BUSY) -> list[str]:
    """For the command line of `broker-lite serve`."""
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
