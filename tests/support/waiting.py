"""Waiting for something that another process does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def until(condition: Callable[[], bool], *, within: float, what: str, every: float = 0.1) -> None:
    """Return as soon as the condition holds; fail if it does not hold in time."""
    deadline = time.monotonic() + within
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"waited {within} s for {what}"
        pause.wait(every)
