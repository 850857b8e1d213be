"""Long responses: one is built at a time, and those that nobody reads hold up others for a bounded time only."""

from __future__ import annotations

import os

import anyio
import anyio.lowlevel
import pytest

from broker_lite.broker.responses import MAX_PENDING, READ_TIMEOUT_S, ResponseBudget, ResponseChunk, units


async def in_turn(budget: ResponseBudget, name: str, order: list[str]) -> None:
    await budget.enter()
    order.append(name)
    await anyio.lowlevel.checkpoint()
    order.append(name)
    budget.leave()


async def settle() -> None:
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


async def test_one_is_built_at_a_time_in_the_order_of_asking() -> None:
    budget, order = ResponseBudget(), list[str]()
    async with anyio.create_task_group() as tasks:
        for name in "abc":
            tasks.start_soon(in_turn, budget, name, order)
    assert order == ["a", "a", "b", "b", "c", "c"]


async def test_none_is_begun_while_too_much_is_not_read() -> None:
    budget, order = ResponseBudget(), list[str]()
    (first, second) = budget.hold([bytes(MAX_PENDING), b"more"])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(in_turn, budget, "a", order)
        await settle()
        assert not order
        assert budget.is_short
        assert isinstance(second, ResponseChunk)
        second.release()
        await settle()
        assert not order
        assert isinstance(first, ResponseChunk)
        first.release()
    assert order == ["a", "a"]
    assert not budget.is_short
    assert budget.pending == 0


async def test_who_waits_and_goes_away_leaves_the_turn_to_the_next() -> None:
    budget, order = ResponseBudget(), list[str]()
    (piece,) = budget.hold([bytes(MAX_PENDING)])
    assert isinstance(piece, ResponseChunk)
    async with anyio.create_task_group() as tasks:
        with anyio.move_on_after(0.01):
            await budget.enter()
        assert not budget.is_short
        piece.release()
        tasks.start_soon(in_turn, budget, "next", order)
    assert order == ["next", "next"]


def test_a_chunk_gives_its_bytes_back_once() -> None:
    budget = ResponseBudget()
    full, empty = budget.hold([b"0123456789", b""])
    assert isinstance(full, ResponseChunk)
    assert isinstance(empty, ResponseChunk)
    assert budget.pending == len(full) == 10
    for chunk in (full, full, empty, empty):
        chunk.release()
    assert budget.pending == 0


def test_a_chunk_is_read_and_sent_from_where_somebody_stopped() -> None:
    (chunk,) = ResponseBudget().hold([b"0123456789"])
    assert isinstance(chunk, ResponseChunk)
    assert chunk.read(0, 100) == b"0123456789"
    assert chunk.read(4, 3) == b"456"
    come_out, go_in = os.pipe()
    try:
        assert chunk.send(go_in, 7) == 3
        assert os.read(come_out, 100) == b"789"
    finally:
        os.close(come_out)
        os.close(go_in)


async def test_a_chunk_is_overdue_only_while_others_wait() -> None:
    budget = ResponseBudget()
    (chunk,) = budget.hold([bytes(MAX_PENDING)])
    assert isinstance(chunk, ResponseChunk)
    assert not chunk.is_overdue(0)
    assert not chunk.is_overdue(10 * READ_TIMEOUT_S)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(budget.enter)
        await settle()
        assert not chunk.is_overdue(1000)
        assert not chunk.is_overdue(1000 + READ_TIMEOUT_S)
        assert chunk.is_overdue(1001 + READ_TIMEOUT_S)
        chunk.release()


@pytest.mark.parametrize(("size", "count"), [(0, 1), (99, 1), (100, 2), (12_345, 124)])
def test_every_row_counts_and_a_long_one_by_its_length(size: int, count: int) -> None:
    assert units(size) == count
