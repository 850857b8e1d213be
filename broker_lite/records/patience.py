"""How long somebody may look into a batch.

A kilobyte can hold millions of records, and a request many such kilobytes.  A thread cannot be ended from outside, so
whoever inflates or reads record by record asks now and then whether it is still worth it.  Where nobody says how to
find out, nobody is ever late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from broker_lite.errors import BrokerError, ErrorCode

OFTEN = 4096
"""Records from one question to the next."""
_late: ContextVar[Callable[[], bool] | None] = ContextVar("late", default=None)


class TookTooLong(BrokerError):
    code = ErrorCode.REQUEST_TIMED_OUT


@contextmanager
def unless(late: Callable[[], bool]) -> Iterator[None]:
    """Meanwhile and in this thread, `go_on` asks whether it is late."""
    before = _late.set(late)
    try:
        yield
    finally:
        _late.reset(before)


def go_on() -> None:
    """TookTooLong if it is late."""
    late = _late.get()
    if late is not None and late():
        raise TookTooLong("the batch could not be checked in time")
