"""A mistake of ours in what is done in the background costs that one step, and is told; it never costs the broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from broker_lite.logs import get_logger

REST = 1.0
"""Seconds before a step that failed is tried again, where nothing else paces it."""

log = get_logger(__name__)


@contextmanager
def surviving(work: str) -> Iterator[None]:
    try:
        yield
    except Exception:
        log.exception("background.failed", work=work)
