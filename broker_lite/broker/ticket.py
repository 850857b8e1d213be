"""Whoever waits for an answer that another request, or the clock, will bring."""

from __future__ import annotations

import anyio

from broker_lite.errors import BrokerError


class Ticket:
    """Somebody who waits for an answer. If the connection goes, the answer is given to nobody."""

    __slots__ = ("_answer", "_answered")

    def __init__(self) -> None:
        self._answered = anyio.Event()
        self._answer: object = None

    def give(self, answer: object) -> None:
        self._answer = answer
        self._answered.set()

    async def wait(self) -> object:
        await self._answered.wait()
        answer, self._answer = self._answer, None
        if isinstance(answer, BrokerError):
            try:
                raise answer
            finally:
                del answer  # or it would hold itself, and the request, until the collector comes by
        return answer
