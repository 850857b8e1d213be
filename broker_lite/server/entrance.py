"""From a listening socket to a connection that the loop drives: the part of accepting that is asyncio's."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from broker_lite.server.connection import LAST_WORDS, Connection
from broker_lite.server.tls import Tls


class QuickSocket(socket.socket):
    """Says its family and its kind as numbers: Python's makes a member of an enum each time, and is asked five times
    for each client, which took the tenth part of a log-in."""

    __slots__ = ()
    family = socket.SocketType.family  # type: ignore[assignment]
    type = socket.SocketType.type  # type: ignore[assignment]

    def accept(self) -> tuple[QuickSocket, Any]:
        number, address = self._accept()  # type: ignore[attr-defined]
        return QuickSocket(self.family, self.type, self.proto, fileno=number), address


@contextmanager
def arrivals(listening: socket.socket, come: Callable[[], None]) -> Iterator[None]:
    """Meanwhile `come` is called whenever somebody stands in the queue of a listening socket."""
    loop = asyncio.get_running_loop()
    loop.add_reader(listening, come)
    try:
        yield
    finally:
        loop.remove_reader(listening)


def adopt(client: socket.socket, connection: Connection, done: Callable[[OSError | None], None]) -> None:
    """From here on the loop drives the connection, which owns the socket. `done` hears of it, in a moment.

    The loop's coroutine waits once, for the loop's next turn; a task for that would cost as much as a request."""
    _go_on(asyncio.get_running_loop().connect_accepted_socket(lambda: connection, client), done)


def _go_on(adopting: Coroutine[Any, None, object], done: Callable[[OSError | None], None], _: object = None) -> None:
    try:
        turn = adopting.send(None)
    except StopIteration:
        done(None)
    except OSError as error:
        done(error)
    except BaseException:
        done(None)
        raise
    else:
        turn.add_done_callback(partial(_go_on, adopting, done))


async def adopt_after_handshake(client: socket.socket, connection: Connection, tls: Tls) -> None:
    """The same with TLS: OSError is a handshake that failed."""
    from broker_lite.server.farewell import Farewell

    loop = asyncio.get_running_loop()
    farewell = Farewell(client)
    farewell.begin()
    try:
        await loop.connect_accepted_socket(
            lambda: connection, client, ssl=tls.context, ssl_handshake_timeout=tls.handshake_seconds
        )
    finally:
        loop.call_later(LAST_WORDS if farewell.said else 0, farewell.end)
