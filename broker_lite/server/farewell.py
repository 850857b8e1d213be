"""TLS handshakes: how they begin, and why one failed, told to the client.

OpenSSL leaves an alert for the client (no certificate, one that nobody trusts, a version of TLS that is too old), but
asyncio and uvloop throw it away with the connection.  Java's client takes a connection that is merely closed for an
accident and tries again until its time is over; with the alert it says at once what is wrong, as it does with Kafka.

A handshake is bounded here, too: OpenSSL takes memory for as many bytes as a ClientHello announces, up to 128 KiB,
before any of them has come.  No client says more than a few KiB.

The object that runs the handshake is made by the loop, far from whoever accepted the client; a context variable is the
thread between them.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from contextvars import ContextVar
from typing import cast

_ACCIDENTS = (ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLSyscallError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
MAX_CLIENT_HELLO = 16_384
_HELLO_AT = slice(5, 9)
"""Where the first message says what it is and how long, after the header of its record."""
_MOST_READ = 64
"""Pieces of what the client said meanwhile that are thrown away."""


class Farewell:
    """Belongs to one handshake. `begin` before it, `end` a moment after it failed."""

    def __init__(self, client: socket.socket) -> None:
        self._client: socket.socket | None = client
        self._kept: socket.socket | None = None

    @property
    def said(self) -> bool:
        return self._kept is not None

    def begin(self) -> None:
        _CURRENT.set(self)

    def say(self, alert: bytes) -> None:
        """The loop closes its socket at once, so this goes out by a twin of it."""
        if self._client is None:
            return
        with contextlib.suppress(OSError):
            self._kept = self._client.dup()
            self._kept.setblocking(False)
            self._kept.send(alert)
            self._kept.shutdown(socket.SHUT_WR)

    def end(self) -> None:
        """What the client has said meanwhile is read: closed with that unread, the kernel would take back the alert."""
        kept, self._kept, self._client = self._kept, None, None
        if kept is not None:
            with contextlib.suppress(OSError):
                for _ in range(_MOST_READ):
                    if not kept.recv(65_536):
                        break
            kept.close()


_CURRENT: ContextVar[Farewell | None] = ContextVar("farewell", default=None)


class Handshake(ssl.SSLObject):
    """What `SSLContext.sslobject_class` makes."""

    _incoming: ssl.MemoryBIO | None
    """Until the size of the ClientHello is known."""
    _outgoing: ssl.MemoryBIO | None
    _farewell: Farewell | None

    @classmethod
    def _create(cls, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **more: object) -> Handshake:
        made = cast(Handshake, super()._create(incoming, outgoing, **more))  # type: ignore[misc]
        made._incoming, made._outgoing, made._farewell = incoming, outgoing, _CURRENT.get()
        return made

    def do_handshake(self) -> None:
        if self._incoming is not None and not self._hello_is_bounded(self._incoming):
            raise ssl.SSLWantReadError
        try:
            super().do_handshake()
        except _ACCIDENTS:
            raise
        except ssl.SSLError:
            if self._outgoing is not None and self._farewell is not None and self._outgoing.pending:
                self._farewell.say(self._outgoing.read())
            raise
        self._outgoing = self._farewell = None

    def _hello_is_bounded(self, incoming: ssl.MemoryBIO) -> bool:
        """False: its size has not come yet. SSLError if there is too much of it."""
        if incoming.pending < _HELLO_AT.stop and not incoming.eof:
            return False
        self._incoming = None
        came = incoming.read()
        if came.startswith(b"\x16\x03") and (size := int.from_bytes(came[_HELLO_AT][1:])) > MAX_CLIENT_HELLO:
            raise ssl.SSLError(ssl.SSL_ERROR_SSL, f"a ClientHello of {size} bytes, the limit is {MAX_CLIENT_HELLO}")
        incoming.write(came)
        return True
