"""Where no thread can be started, the work is done all the same."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from broker_lite.broker.threads import in_a_thread
from broker_lite.log.sync import _MANY, _run_all


@pytest.fixture
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)


async def test_work_is_done_in_a_thread() -> None:
    assert await in_a_thread(threading.get_ident) != threading.get_ident()


@pytest.mark.usefixtures("_no_threads")
async def test_without_threads_it_is_done_here() -> None:
    assert await in_a_thread(threading.get_ident) == threading.get_ident()
    assert await in_a_thread(divmod, 7, 2) == (3, 1)


async def test_what_goes_wrong_in_the_work_is_raised_and_it_is_not_done_twice() -> None:
    times: list[int] = []

    def fail() -> None:
        times.append(1)
        raise RuntimeError("of its own")

    with pytest.raises(RuntimeError, match="of its own"):
        await in_a_thread(fail)
    assert len(times) == 1


@pytest.mark.usefixtures("_no_threads")
def test_without_threads_many_files_are_synced_one_after_the_other() -> None:
    synced: set[int] = set()
    steps: list[Callable[[], None]] = [lambda number=number: synced.add(number) for number in range(_MANY)]  # type: ignore[misc]
    _run_all(steps)
    assert len(synced) == _MANY
