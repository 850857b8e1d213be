from __future__ import annotations

import struct

from broker_lite.server.inbox import STEP, Inbox
from broker_lite.server.limits import Budget

LIMIT = 100_000_000


def frame(size: int) -> bytes:
    return struct.pack(">i", size) + bytes(size)


def inbox(budget: Budget | None = None) -> Inbox:
    return Inbox(memoryview(bytearray(1000)), budget or Budget(-1), lambda: None)


def receive(box: Inbox, data: bytes) -> tuple[memoryview, bool] | None:
    room = box.room()
    room[: len(data)] = data
    return box.arrived(len(data))


def test_what_arrives_lies_in_the_shared_buffer() -> None:
    box = inbox()
    came = receive(box, frame(10))
    assert came is not None
    assert (bytes(came[0]), came[1]) == (frame(10), False)


def test_the_beginning_of_a_size_is_kept_and_joined() -> None:
    box = inbox()
    box.keep(memoryview(frame(10)[:3]), False, LIMIT)
    assert box.has_partial
    came = receive(box, frame(10)[3:])
    assert came is not None
    assert bytes(came[0]) == frame(10)


def test_a_frame_grows_with_what_arrived_and_not_with_what_was_announced() -> None:
    budget = Budget(-1)
    box = inbox(budget)
    whole = frame(5 * STEP)
    box.keep(memoryview(whole[:100]), False, LIMIT)
    arrived = 100
    while arrived < len(whole):
        size = min(len(box.room()), len(whole) - arrived, 300_000)
        came = receive(box, whole[arrived : arrived + size])
        arrived += size
        assert budget.used <= max(2 * arrived, arrived + 4096)
        assert budget.used <= arrived + STEP
    assert came is not None
    stream, ours = came
    assert ours
    assert bytes(stream) == whole
    box.begin()
    box.done()
    assert budget.used == 0


def test_whole_frames_wait_and_fill_the_inbox() -> None:
    box = inbox()
    box.keep(memoryview(frame(1) + frame(2) + b"\0"), False, LIMIT)
    assert box.full
    assert box.backlog is not None
    assert bytes(box.backlog) == frame(1) + frame(2) + b"\0"


def test_an_impossible_size_waits_for_its_turn_without_its_bytes() -> None:
    box = inbox()
    box.keep(memoryview(struct.pack(">i", LIMIT + 1) + bytes(500)), False, LIMIT)
    assert box.backlog is not None
    assert len(box.backlog) == 4


def test_dropping_a_frame_in_the_making_gives_its_bytes_back() -> None:
    budget = Budget(10_000)
    first, second = inbox(budget), inbox(budget)
    first.keep(memoryview(frame(50_000)[:9000]), False, LIMIT)
    second.keep(memoryview(frame(50_000)[:900]), False, LIMIT)
    assert second.short
    first.drop()
    assert not second.short
    second.drop()
    assert budget.used == 0


def test_while_the_budget_is_tight_reads_are_small() -> None:
    budget = Budget(10_000)
    box = Inbox(memoryview(bytearray(100_000)), budget, lambda: None)
    assert len(box.room()) == 100_000
    budget.add(10_000)
    assert len(box.room()) == 4096
    box.keep(memoryview(b"\0\0"), False, LIMIT)
    assert len(box.room()) == 4094
    budget.give_back(box, 1)
    assert len(box.room()) == 99_998


def test_frames_before_their_turn_are_paid_for_until_they_are_taken() -> None:
    budget = Budget(10_000)
    box = inbox(budget)
    box.keep(memoryview(frame(100) + frame(50)), False, LIMIT)
    assert budget.used == 158
    whole = box.taken()
    assert budget.used == 0
    box.keep(whole[104:], True, LIMIT)
    assert budget.used == 54
    box.drop()
    assert budget.used == 0


def test_who_moves_to_another_budget_takes_along_what_he_holds() -> None:
    strangers, others = Budget(10_000), Budget(100_000)
    box, second = inbox(strangers), inbox(strangers)
    box.keep(memoryview(frame(50_000)[:9000]), False, LIMIT)
    second.keep(memoryview(frame(50_000)[:900]), False, LIMIT)
    held = strangers.used
    assert second.short
    second.move_to(others)
    assert not second.short, "there is room"
    assert (strangers.used, others.used) == (held, 900 + 4096)
    box.move_to(others)
    assert strangers.used == 0
    assert not strangers.tight
    for one in (box, second):
        one.drop()
    assert others.used == 0
