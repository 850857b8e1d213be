from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
from collections.abc import Callable

import pytest

from broker_lite.server.turns import SLICE_NS, ask_for_short_turns

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64", reason="asks the kernel by a number"
)
SCHED_GETATTR = 315


def slice_of(thread: int) -> int:
    said = ctypes.create_string_buffer(48)
    assert ctypes.CDLL(None).syscall(SCHED_GETATTR, thread, said, 48, 0) == 0
    return int(struct.unpack_from("=Q", said, 24)[0])


def in_a_thread(do: Callable[[], int]) -> int:
    """Nobody else gets what it asked for."""
    answers: list[int] = []
    thread = threading.Thread(target=lambda: answers.append(do()))
    thread.start()
    thread.join()
    return answers[0]


def test_a_thread_gets_short_turns_and_those_it_starts_do_not() -> None:
    own = threading.get_native_id
    patient = in_a_thread(lambda: slice_of(own()))
    if patient == 0 or os.nice(0) != 0:
        pytest.skip("a kernel before 6.12, or we were told to be nice")

    def ask() -> int:
        ask_for_short_turns(own())
        assert in_a_thread(lambda: slice_of(own())) == patient
        return slice_of(own())

    assert in_a_thread(ask) == SLICE_NS < patient


def test_a_priority_that_somebody_gave_is_kept() -> None:
    def ask() -> int:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 5)
        ask_for_short_turns(threading.get_native_id())
        return slice_of(threading.get_native_id())

    assert in_a_thread(ask) != SLICE_NS
