"""From a listening socket to a connection that the loop drives: the part of accepting that is asyncio's."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager

from broker_lite.server.connection import LAST_WORDS, Connection
from broker_lite.server.tls import Tls


@contextmanager
def arrivals(listening: socket.socket, come: Callable[[], None]) -> Iterator[None]:
    """Meanwhile `come` is called whenever somebody stands in the queue of a listening socket."""
    loop = asyncio.get_running_loop()
    loop.add_reader(listening, come)
    try:
        yield
    finally:
        loop.remove_reader(listening)


_background: set[asyncio.Task[None]] = set()
"""The loop itself holds tasks by a thread only."""


def in_background(work: Coroutine[object, object, None]) -> None:
    """A task outside all groups: a tenth of what one inside costs. For what is over in a moment."""
    task = asyncio.get_running_loop().create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)


async def adopt(client: socket.socket, connection: Connection, tls: Tls | None = None) -> None:
    """From here on the loop drives the connection, which owns the socket. With TLS, after a handshake that may fail."""
    loop = asyncio.get_running_loop()
    if tls is None:
        await loop.connect_accepted_socket(lambda: connection, client)
    else:
        from broker_lite.server.farewell import Farewell

        farewell = Farewell(client)
        farewell.begin()
        try:
            await loop.connect_accepted_socket(
                lambda: connection, client, ssl=tls.context, ssl_handshake_timeout=tls.handshake_seconds
            )
        finally:
            loop.call_later(LAST_WORDS if farewell.said else 0, farewell.end)
