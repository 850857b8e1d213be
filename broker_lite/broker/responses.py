"""How much of this machine long responses may use: one is built at a time, and those not yet read share a limit.

A small request can ask for much: one that names a group 400 times asks for its offsets 400 times, and Kafka answers
each.  So do we, within bounds.  A response is *long* if it takes more than a moment to build (`apis/slices.py`).  Long
ones are built one after the other, in the order in which they were asked for, and each within `MAX_UNITS` and
`MAX_BYTES`.  What is built and not yet read by its client counts as `pending`; while that is `MAX_PENDING` or more the
next one is not begun.  So the memory of all long responses is bounded by

    the objects of one response (`MAX_UNITS` rows) + `MAX_BYTES` + `MAX_PENDING`

however many connections ask, and however slowly they read.  Who does not read for `READ_TIMEOUT_S` while others wait
loses the connection.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import anyio

from broker_lite.errors import InvalidRequest
from broker_lite.wire.codec import Piece

UNIT = 100
"""Bytes of a response that count as one unit; every row counts for at least one, for what it takes in memory."""
MAX_UNITS = 1_000_000
MAX_BYTES = UNIT * MAX_UNITS
"""A longer response is refused. librdkafka reads no more either (`receive.message.max.bytes`)."""
MAX_PENDING = 128 << 20
READ_TIMEOUT_S = 30.0
_LOG_EVERY_S = 60.0


class ResponseTooLarge(InvalidRequest):
    def __init__(self) -> None:
        super().__init__(
            f"The response would be larger than {MAX_BYTES} bytes or {MAX_UNITS} rows; ask for less at a time."
        )


def units(size: int) -> int:
    """What a row of `size` bytes counts."""
    return 1 + size // UNIT


class ResponseBudget:
    def __init__(self) -> None:
        self.pending = 0
        """Bytes of long responses that are built and not yet sent."""
        self._building = anyio.Lock()
        self._room: anyio.Event | None = None
        """Set when `pending` is low enough for the one whose turn it is."""
        self._logged = -_LOG_EVERY_S

    @property
    def is_short(self) -> bool:
        """Somebody waits for others to read what is theirs."""
        return self._room is not None

    async def enter(self) -> None:
        """Wait for the right to build a long response, given in the order of asking; `leave` when it is built."""
        await self._building.acquire()
        try:
            while self.pending >= MAX_PENDING:
                self._room = anyio.Event()
                await self._room.wait()
        except BaseException:
            self._building.release()
            raise
        finally:
            self._room = None

    def leave(self) -> None:
        self._building.release()

    def hold(self, parts: Sequence[bytes]) -> list[Piece]:
        """The parts of a response, as pieces that give back their bytes when they are sent or dropped."""
        return [ResponseChunk(self, part) for part in parts]

    def may_log(self, now: float) -> bool:
        if now - self._logged < _LOG_EVERY_S:
            return False
        self._logged = now
        return True

    def add(self, size: int) -> None:
        self.pending += size
        assert self.pending >= 0, f"{self.pending=} after {-size} bytes came back"
        if self._room is not None and self.pending < MAX_PENDING:
            self._room.set()


class ResponseChunk:
    """A part of a long response on its way out; whoever holds it releases it."""

    __slots__ = ("_budget", "_data", "_seen", "_size")

    def __init__(self, budget: ResponseBudget, data: bytes) -> None:
        self._budget = budget
        self._data = data
        self._size = len(data)
        self._seen: float | None = None
        budget.add(self._size)

    def __len__(self) -> int:
        return self._size

    def read(self, start: int, n: int, /) -> bytes:
        return self._data if start == 0 and n >= self._size else self._data[start : start + n]

    def send(self, socket: int, start: int, /) -> int:
        return os.write(socket, memoryview(self._data)[start:])

    def release(self) -> None:
        if self._data or not self._size:
            self._data = b""
            self._budget.add(-self._size)

    def is_overdue(self, now: float) -> bool:
        """Whether others wait, and have waited long enough since this was first asked, for its client to read it."""
        if not self._budget.is_short or self._seen is None:
            self._seen = now if self._budget.is_short else None
            return False
        return now - self._seen > READ_TIMEOUT_S
