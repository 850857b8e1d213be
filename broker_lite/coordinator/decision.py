"""What a coordinator hands to the broker: lines to write down, and what to say once they are written.

A coordinator *decides*: it looks at its state and at a request and returns a `Decision`.  The broker appends
the decision's records to the internal topic as one batch, hands each record back to the coordinator's `apply`,
and only then gives the answers to those who wait for them.  If the append fails nothing was applied, `undo` takes back
what was changed while deciding, and everybody who was to be answered hears of the failure instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from broker_lite.errors import BrokerError
from broker_lite.shapes import dataclass, field

Reply = TypeVar("Reply")

Ticket = object
"""Whoever waits for an answer. The broker makes tickets; a coordinator keeps them and never looks inside."""


@dataclass(slots=True)
class Record:
    """One line of an internal topic."""

    key: bytes
    value: bytes | None
    """None takes back what was written under this key."""
    spoken: tuple[object, object | None] | None = None
    """Key and value before they became bytes: spares `apply` the reading of what was just written."""
    is_news: bool = True
    """False: it is true here already, only a restart has to learn it."""


@dataclass(slots=True)
class Decision(Generic[Reply]):
    reply: Reply
    """What to tell the one who asked, if that one does not wait with a ticket."""
    records: list[Record] = field(default_factory=list)
    answers: list[tuple[Ticket, object]] = field(default_factory=list)
    """What to tell those who wait, after the records are written and applied."""
    undo: Callable[[BrokerError], None] | None = None
    """To be called, before anybody is answered, if the records could not be written (or only the first of them)."""
    is_atomic: bool = False
    """All records in one batch, or none. Others are split if they are too large for one."""
