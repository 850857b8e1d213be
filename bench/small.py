"""Small requests: one record each, many connections, each waits for its answer before it asks again.

One loop over ready sockets, with the request made once; what it costs is the same for every broker, and it leaves the
other core to the broker.
"""

from __future__ import annotations

import selectors
import statistics
import struct
import time
from dataclasses import dataclass

from bench.raw import Connection, create_topic, produce_error, produce_frame


@dataclass(slots=True, frozen=True)
class Small:
    per_second: float
    p50_ms: float
    p99_ms: float


def small_requests(
    bootstrap: str, topic: str, *, connections: int = 16, seconds: float = 5.0, size: int = 200
) -> Small:
    create_topic(bootstrap, topic, 1)
    request = produce_frame(topic, b"x" * size)
    selector = selectors.DefaultSelector()
    opened = [Connection(bootstrap) for _ in range(connections)]
    for connection in opened:
        answer = connection.ask(request)
        if (error := produce_error(topic, answer)) != 0:
            raise RuntimeError(f"a small produce was refused with error {error}")
        connection.socket.setblocking(False)
        selector.register(connection.socket, selectors.EVENT_READ, connection)
    answer_size = struct.calcsize(">i") + len(answer)
    _spin(selector, opened, request, answer_size, seconds / 5)
    waits = _spin(selector, opened, request, answer_size, seconds)
    for connection in opened:
        connection.socket.close()
    cuts = statistics.quantiles(waits, n=100)
    return Small(len(waits) / seconds, cuts[49] * 1000, cuts[98] * 1000)


def _spin(
    selector: selectors.BaseSelector, opened: list[Connection], request: bytes, answer_size: int, seconds: float
) -> list[float]:
    """Ask and ask again for that long; how long each answer took.  Ends with no question open."""
    clock = time.perf_counter
    waits: list[float] = []
    sent = {connection: clock() for connection in opened}
    got = dict.fromkeys(opened, 0)
    over = clock() + seconds
    for connection in opened:
        connection.socket.send(request)
    waiting = len(opened)
    while waiting:
        for key, _ in selector.select():
            connection = key.data
            got[connection] += len(connection.socket.recv(65536))
            if got[connection] < answer_size:
                continue
            got[connection] = 0
            now = clock()
            waits.append(now - sent[connection])
            if now < over:
                sent[connection] = now
                connection.socket.send(request)
            else:
                waiting -= 1
    return waits
