"""What others notice of a request: how long they wait, and how much memory it takes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from broker_lite.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.support.talk import Talk


class Bystander:
    """Another client, who asks all the time; knows how long it had to wait, and how often it did not have to."""

    def __init__(self, talk: Talk) -> None:
        self._talk = Talk(talk.broker, "bystander")
        self.answered = 0
        self.longest_turn = 0.0

    async def live(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self.longest_turn = max(self.longest_turn, now - last)
            if now > last + 0.001:
                await self._talk.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
                self.answered += 1
            last = time.thread_time()


def new_peak() -> None:
    """From now on `VmHWM` is of what follows."""
    Path("/proc/self/clear_refs").write_text("5")


def memory(what: str) -> int:
    """`VmRSS` or `VmHWM` of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(what))
