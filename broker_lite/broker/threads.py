"""Work beside the loop: in a thread, as anyio has it, or, where no thread can be started, here and now.

A container may run out of processes, and one with old rules for system calls gives none at all.  Then everybody waits
for what takes long; but nobody loses the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

R = TypeVar("R")
Arguments = TypeVarTuple("Arguments")

_NO_THREAD = "can't start new thread"


async def in_a_thread(
    work: Callable[[*Arguments], R],
    *arguments: *Arguments,
    limiter: anyio.CapacityLimiter | None = None,
    abandon_on_cancel: bool = False,
) -> R:
    """What `work` returns or raises."""
    try:
        return await anyio.to_thread.run_sync(work, *arguments, limiter=limiter, abandon_on_cancel=abandon_on_cancel)
    except RuntimeError as error:
        if str(error) != _NO_THREAD:
            raise
    return work(*arguments)
