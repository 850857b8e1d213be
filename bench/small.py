"""Small requests over many connections, each of which waits for its answer before it asks again.

One loop over ready sockets, with requests made once; what it costs is the same for every broker, and it leaves the
other core to the broker.
"""

from __future__ import annotations

import selectors
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat

from bench.raw import (
    Connection,
    commit_error,
    commit_frame,
    create_topic,
    fetch_offset_error,
    fetch_offset_frame,
    find_coordinator_frame,
    produce_error,
    produce_frame,
)

Questions = bytes | Iterator[bytes]
"""What one connection asks: the same again and again, or the next of many, all of which get answers of one size."""


@dataclass(slots=True, frozen=True)
class Small:
    per_second: float
    p50_ms: float
    p99_ms: float
    asked: int
    """How many requests in all, with those of the warm-up."""


def small_produces(bootstrap: str, seconds: float, *, connections: int = 16, size: int = 200) -> Small:
    create_topic(bootstrap, "small", 1)
    request = produce_frame("small", b"x" * size)
    return hammer(bootstrap, [request] * connections, partial(produce_error, "small"), seconds)


def offset_commits(bootstrap: str, seconds: float, *, groups: int = 16) -> Small:
    wake_coordinator(bootstrap)
    requests = [commit_frame(f"group-{number}", "small", 1) for number in range(groups)]
    return hammer(bootstrap, requests, partial(commit_error, "small"), seconds)


def offset_fetches(bootstrap: str, seconds: float, *, groups: int = 16) -> Small:
    requests = [fetch_offset_frame(f"group-{number}", "small") for number in range(groups)]
    return hammer(bootstrap, requests, partial(fetch_offset_error, "small"), seconds)


def wake_coordinator(bootstrap: str) -> None:
    with Connection(bootstrap) as connection:
        connection.ask(find_coordinator_frame("bench"))


def hammer(bootstrap: str, requests: Sequence[Questions], error_in: Callable[[bytes], int], seconds: float) -> Small:
    with Hammer(bootstrap, requests, error_in) as many:
        warm = many.hit(seconds / 5)
        waits = many.hit(seconds)
    cuts = statistics.quantiles(waits, n=100)
    return Small(len(waits) / seconds, cuts[49] * 1000, cuts[98] * 1000, len(warm) + len(waits))


class Hammer:
    """One connection for each of `requests`, which asks again as soon as it was answered."""

    def __init__(self, bootstrap: str, requests: Sequence[Questions], error_in: Callable[[bytes], int]) -> None:
        self._selector = selectors.DefaultSelector()
        self._asked: dict[Connection, Iterator[bytes]] = {}
        self._sizes: dict[Connection, int] = {}
        for request in requests:
            connection = Connection(bootstrap)
            questions = self._asked[connection] = repeat(request) if isinstance(request, bytes) else request
            self._sizes[connection] = len(_first_answer(connection, next(questions), error_in)) + 4
            connection.socket.setblocking(False)
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)

    def __enter__(self) -> Hammer:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._asked:
            connection.socket.close()

    def hit(self, seconds: float) -> list[float]:
        """For that long; how long each answer took."""
        return _spin(self._selector, self._asked, self._sizes, seconds)


def _first_answer(connection: Connection, request: bytes, error_in: Callable[[bytes], int]) -> bytes:
    """An answer without an error; a coordinator may need a moment to load what it coordinates."""
    deadline = time.monotonic() + 20
    while (error := error_in(answer := connection.ask(request))) != 0:
        if time.monotonic() > deadline:
            raise RuntimeError(f"a small request was refused with error {error}")
        time.sleep(0.05)
    return answer


def _spin(
    selector: selectors.BaseSelector,
    asked: dict[Connection, Iterator[bytes]],
    sizes: dict[Connection, int],
    seconds: float,
) -> list[float]:
    """Ask and ask again for that long; how long each answer took.  Ends with no question open."""
    clock = time.perf_counter
    waits: list[float] = []
    sent = {connection: clock() for connection in asked}
    got = dict.fromkeys(asked, 0)
    over = clock() + seconds
    for connection, questions in asked.items():
        connection.socket.send(next(questions))
    waiting = len(asked)
    while waiting:
        for key, _ in selector.select():
            connection = key.data
            got[connection] += len(connection.socket.recv(65536))
            if got[connection] < sizes[connection]:
                continue
            got[connection] = 0
            now = clock()
            waits.append(now - sent[connection])
            if now < over:
                sent[connection] = now
                connection.socket.send(next(asked[connection]))
            else:
                waiting -= 1
    return waits
