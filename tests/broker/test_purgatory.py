from __future__ import annotations

import anyio

from broker_lite.broker.purgatory import Purgatory
from broker_lite.clock import ManualClock


async def _until_parked(purgatory: Purgatory, count: int = 1) -> None:
    while len(purgatory) < count:
        await anyio.lowlevel.checkpoint()


async def test_a_question_that_is_answered_already_does_not_wait() -> None:
    purgatory = Purgatory(ManualClock())
    with anyio.fail_after(5):  # the clock stands still: who waits here waits for ever
        await purgatory.wait(["a"], lambda _: True, within=1)
    assert len(purgatory) == 0


async def test_a_wake_up_lets_go_only_those_who_are_ready() -> None:
    clock = ManualClock()
    purgatory = Purgatory(clock)
    gone: list[str] = []
    size = 0

    async def wait_for(name: str, bytes_wanted: int) -> None:
        await purgatory.wait(["p"], lambda _: size >= bytes_wanted, within=100)
        gone.append(name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait_for, "modest", 1)
        tasks.start_soon(wait_for, "greedy", 10)
        await _until_parked(purgatory, 2)
        size = 5
        purgatory.wake("p")
        await anyio.wait_all_tasks_blocked()
        assert gone == ["modest"]
        size = 10
        purgatory.wake("p")
    assert gone == ["modest", "greedy"]
    assert len(purgatory) == 0


async def test_a_wake_up_of_something_else_changes_nothing() -> None:
    clock = ManualClock()
    purgatory = Purgatory(clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: purgatory.wait(["p"], lambda _: False, within=100))
        await _until_parked(purgatory)
        purgatory.wake("q")
        await anyio.wait_all_tasks_blocked()
        assert len(purgatory) == 1
        clock.advance(100)
    assert len(purgatory) == 0


async def test_waiting_ends_when_the_time_is_over() -> None:
    clock = ManualClock()
    purgatory = Purgatory(clock)
    ended = anyio.Event()

    async def wait() -> None:
        await purgatory.wait(["p"], lambda _: False, within=0.5)
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await _until_parked(purgatory)
        clock.advance(0.4)
        await anyio.wait_all_tasks_blocked()
        assert not ended.is_set()
        clock.advance(0.2)
        await ended.wait()


async def test_a_cancelled_request_leaves_nothing_behind() -> None:
    purgatory = Purgatory(ManualClock())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: purgatory.wait(["p", "q"], lambda _: False, within=100))
        await _until_parked(purgatory)
        tasks.cancel_scope.cancel()
    assert len(purgatory) == 0
    purgatory.wake("p")


async def test_the_question_is_asked_about_what_changed() -> None:
    purgatory = Purgatory(ManualClock())
    asked: list[object] = []

    def ready(key: object) -> bool:
        asked.append(key)
        return key == "q"

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: purgatory.wait(["p", "q"], ready, within=100))
        await _until_parked(purgatory)
        purgatory.wake("p")
        purgatory.wake("q")
    assert asked == [None, "p", "q"]
