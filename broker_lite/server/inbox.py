"""Bytes on their way in: a frame that is still coming, and frames that came before their turn.

All connections receive into one buffer that belongs to the server: the loop fills it and tells us in the same
breath, so it is free again when we return, and ten thousand idle connections own no buffer at all. A frame that is
still coming gets a buffer of its own that grows with what has arrived, never with what was announced, after asking
the server's budget.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from broker_lite.server.limits import Budget

STEP = 1_048_576
"""A frame's own buffer doubles, but by no more than this."""
_FIRST_STEP = 4096
_ZEROS = memoryview(bytes(STEP))
read_size = struct.Struct(">i").unpack_from


def _nobody() -> None:
    pass


class Inbox:
    __slots__ = (
        "_asked",
        "_budget",
        "_growing",
        "_head",
        "_held",
        "_held_in_progress",
        "_on_room",
        "_receive",
        "_size",
        "_step",
        "_waiting",
        "backlog",
        "filled",
        "short",
    )

    def __init__(self, receive: memoryview, budget: Budget, on_room: Callable[[], None]) -> None:
        self._receive = receive
        self._budget = budget
        self._on_room = on_room
        self._head = b""
        """Up to three bytes of a size that has not come whole."""
        self._growing: bytearray | None = None
        """A frame with its size, still coming: `filled` of `_size` bytes are here."""
        self.filled = self._size = self._step = self._asked = 0
        self.backlog: memoryview | None = None
        """Whole frames that came before their turn. While there are any, nobody reads."""
        self.short = False
        """In line for bytes of the budget."""
        self._held = self._held_in_progress = self._waiting = 0
        """Bytes of the budget in our hands: of the frame that comes, of the one in progress, of the backlog."""

    @property
    def full(self) -> bool:
        return self.backlog is not None or self.short

    @property
    def has_partial(self) -> bool:
        return self._growing is not None or self._head != b""

    @property
    def partial_size(self) -> int:
        """How much of a frame that is still coming is here."""
        return len(self._head) if self._growing is None else self.filled

    @property
    def in_demand(self) -> bool:
        """Others wait for the bytes that we hold."""
        return self._held > 0 and self._budget.in_demand

    @property
    def holds_up(self) -> bool:
        """Others wait for the bytes of requests that came whole: the one in progress, and those after it."""
        return self._held_in_progress + self._waiting > 0 and self._budget.in_demand

    def room(self) -> memoryview:
        """Where the next bytes go."""
        growing = self._growing
        if growing is None:
            head = self._head
            room = self._receive[:_FIRST_STEP] if self._budget.tight else self._receive
            if not head:
                return room
            room[: len(head)] = head
            return room[len(head) :]
        if self.filled == len(growing):
            growing += _ZEROS[: self._step]  # paid for in _want_more; here, and only here, nobody looks at it
        return memoryview(growing)[self.filled :]

    def only(self, size: int) -> memoryview | None:
        """The frame that has come, if it came whole and with nothing before or after it; a copy for its request."""
        if self._growing is None and not self._head and size > 4 and read_size(self._receive)[0] == size - 4:
            return memoryview(bytes(self._receive[4:size]))
        return None

    def arrived(self, size: int) -> tuple[memoryview, bool] | None:
        """Whole frames, perhaps, and whether their memory is ours for good; None while a large one is still coming."""
        growing = self._growing
        if growing is None:
            size += len(self._head)
            self._head = b""
            return self._receive[:size], False
        self.filled += size
        if self.filled < self._size:
            if self.filled == len(growing):
                self._want_more(0)
            return None
        self._growing = None
        return memoryview(growing), True

    def keep(self, rest: memoryview, ours: bool, max_frame: int) -> None:
        """Bytes whose turn has not come: whole frames wait as they are, the beginning of a frame gets room to grow."""
        if len(rest) < 4:
            self._head = bytes(rest)
            return
        (size,) = read_size(rest)
        if not 0 <= size <= max_frame:
            self.backlog = memoryview(bytes(rest[:4]))  # its turn will come, and then it is refused
        elif len(rest) >= 4 + size:
            self.backlog = rest if ours else memoryview(bytes(rest))
            if not self._held:  # else it grew in a buffer that is paid for
                self._waiting = len(rest)
                self._budget.add(len(rest))
        else:
            self._size = 4 + size
            self.filled = len(rest)
            self._growing = bytearray(rest)
            self._want_more(len(rest))

    def taken(self) -> memoryview:
        """The backlog, whose turn has come."""
        assert self.backlog is not None, "nothing waits"
        stream, self.backlog = self.backlog, None
        self._let_go()
        return stream

    def _let_go(self) -> None:
        if self._waiting:
            self._waiting, held = 0, self._waiting
            self._budget.give_back(self, held)

    def move_to(self, budget: Budget) -> None:
        """From now on another budget counts our bytes."""
        if budget is self._budget:
            return
        old, self._budget = self._budget, budget
        held = self._held + self._held_in_progress + self._waiting
        if self.short:
            old.leave(self)
        if held:
            budget.add(held)
            old.give_back(self, held)
        if self.short:
            self.short = False
            if budget.take(self, self._asked):
                self._held += self._asked
            else:
                self.short = True

    def _want_more(self, arrived: int) -> None:
        self._step = min(self._size - self.filled, max(self.filled, _FIRST_STEP), STEP)
        self._asked = arrived + self._step
        if self._budget.take(self, self._asked):
            self._held += self._asked
        else:
            self.short = True

    def go_on(self) -> None:
        """The budget has bytes for us again."""
        self.short = False
        self._held += self._asked
        self._on_room()

    def begin(self) -> None:
        """The frame with a buffer of its own is now in progress."""
        self._held_in_progress, self._held = self._held, 0

    def hold(self, size: int) -> None:
        """A request in progress will take a while: its bytes count, also if it came in one read."""
        if not self._held_in_progress:
            self._held_in_progress = size
            self._budget.add(size)

    def done(self) -> None:
        """What was in progress is answered."""
        if self._held_in_progress:
            self._held_in_progress, held = 0, self._held_in_progress
            self._budget.give_back(self, held)

    def drop_partial(self) -> None:
        """No more bytes will come."""
        self._growing = None
        self._head = b""
        if self.short:
            self.short = False
            self._budget.leave(self)
        if self._held and self.backlog is None:
            self._held, held = 0, self._held
            self._budget.give_back(self, held)

    def drop(self) -> None:
        """Nothing here will be answered."""
        self.backlog = None
        self._let_go()
        self.drop_partial()

    def end(self) -> None:
        """The connection is gone. Nobody is called any more: whoever made us is let go of at once, where the collector
        would have to find out that we hold each other."""
        self.drop()
        self.done()
        self._on_room = _nobody
