"""Listeners: bind, accept, sweep, and leave in good order.

`serve` holds one task group. In it live one accept loop per listening socket, one sweeper for everybody's time-
outs, and the requests that wait. Stopping is four steps: accept nobody, let requests in progress finish for the
grace, cut off who is still there, return.

We accept ourselves instead of leaving it to the event loop's server, because Kafka's `max.connections` leaves further
clients in the kernel's queue, and because running out of file descriptors must neither spin nor stop us. Whoever stands
in the queue is let in by the same callback: one by one, each would wait for several turns of the loop.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from itertools import count
from typing import NamedTuple

import anyio
import anyio.abc

from broker_lite.apis.registry import ConnectionFacts
from broker_lite.clock import Clock
from broker_lite.errors import StartRefused
from broker_lite.logs import get_logger
from broker_lite.server.connection import Connection
from broker_lite.server.entrance import QuickSocket, adopt, adopt_after_handshake, arrivals
from broker_lite.server.limits import Budget, Doors, Limits, raise_open_files
from broker_lite.server.sasl import Answerer, Gate, SaslRules
from broker_lite.server.shared import Bell, Shared
from broker_lite.server.strangers import peer_name
from broker_lite.server.tls import Tls, mistake
from broker_lite.shapes import dataclass, replace

BACKLOG = 1024
SWEEP_EVERY = 1.0
RETRY_ACCEPT_AFTER = 1.0
STRANGERS = 4
"""Those who have not logged in may use the fourth part of `queued.max.request.bytes`, beside it."""
HANDSHAKES = 1000
"""TLS handshakes at once, over all listeners: each holds 60 KiB, and who means it is through in milliseconds. With one
more the oldest is cut off, as a kernel does with those who only knock."""
AT_ONCE = 32
"""Clients that are let in before those who are inside get their turn."""
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_NOT_HERE = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
_PORT_ZERO_TRIES = 20

log = get_logger(__name__)


class Pause(Enum):
    """Why nobody is let in until somebody leaves."""

    FULL = "full"
    NO_ROOM = "no room"


@dataclass(slots=True, frozen=True)
class ListenerAddress:
    name: str
    host: str
    """A name or an address; empty is every interface."""
    port: int
    """0 lets the system choose."""
    tls: Tls | None = None
    sasl: SaslRules | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


async def serve(
    answer: Answerer,
    listeners: Sequence[ListenerAddress],
    limits: Limits,
    ready: Callable[[list[ListenerAddress]], None],
    *,
    stop: anyio.Event,
    clock: Clock,
    doors: Doors | None = None,
) -> None:
    """Serve until `stop` is set. `ready` hears the addresses with their real ports before anybody is accepted."""
    raise_open_files()
    sockets: list[tuple[ListenerAddress, socket.socket]] = []
    bound: list[ListenerAddress] = []
    try:
        for address in listeners:
            opened = bind(address)
            sockets += [(address, one) for one in opened]
            bound.append(replace(address, port=opened[0].getsockname()[1]))
        ready(bound)
        await _Server(answer, limits, clock, doors or Doors(limits)).run(sockets, stop)
    finally:
        for _, listening in sockets:
            listening.close()


class _Door(NamedTuple):
    listener: ListenerAddress
    listening: socket.socket
    name: tuple[str, int] | None
    """By which all clients reach it; None if it has several."""


class _Server:
    def __init__(self, answer: Answerer, limits: Limits, clock: Clock, doors: Doors) -> None:
        self._answer = answer
        self._limits = limits
        self._clock = clock
        self._doors = doors
        doors.on_change = self._look_again
        self._connections: set[Connection] = set()
        self._someone_left = Bell()
        self._adopting = 0
        """Clients who were let in and whom the loop does not drive yet."""
        self._shaking: dict[Connection, anyio.CancelScope] = {}
        """TLS handshakes under way, oldest first."""
        self._ids = count(1)
        self._shared: Shared

    async def run(self, sockets: list[tuple[ListenerAddress, socket.socket]], stop: anyio.Event) -> None:
        async with anyio.create_task_group() as requests:
            self._shared = Shared(
                answer=self._answer,
                limits=self._limits,
                budget=Budget(self._limits.queued_max_request_bytes),
                strangers=Budget(self._limits.queued_max_request_bytes // STRANGERS),
                spawn=requests.start_soon,
                on_made=self._connections.add,
                on_gone=self._gone,
            )
            try:
                async with anyio.create_task_group() as doors:
                    doors.start_soon(self._sweep)
                    for address, listening in sockets:
                        doors.start_soon(self._accept, _Door(address, listening, _own_name(listening)), doors)
                    await stop.wait()
                    doors.cancel_scope.cancel()
                for _, listening in sockets:
                    listening.close()
                while self._adopting:
                    await self._someone_left.next().wait()
                await self._drain()
            finally:
                with anyio.CancelScope(shield=True):
                    await self._cut_off()
            requests.cancel_scope.cancel()

    async def _accept(self, door: _Door, doors: anyio.abc.TaskGroup) -> None:
        while True:
            while self._doors.full:
                await self._someone_left.next().wait()
            pause = await self._let_in_for_a_while(door, doors)
            if pause is Pause.NO_ROOM:
                await self._clock.wait(self._someone_left.next(), RETRY_ACCEPT_AFTER)
            elif pause is not Pause.FULL:
                await self._clock.wait(anyio.Event(), pause)

    async def _let_in_for_a_while(self, door: _Door, doors: anyio.abc.TaskGroup) -> Pause | float:
        """Clients are let in when the loop says that there are some. Returns when nobody may come for now: why, or the
        seconds until somebody may."""
        over = anyio.Event()
        pause: Pause | float | None = None

        def come() -> None:
            nonlocal pause
            if pause is None:
                pause = self._let_in(door, doors)
                if pause is not None:
                    over.set()

        with arrivals(door.listening, come):
            await over.wait()
        assert pause is not None
        return pause

    def _let_in(self, door: _Door, doors: anyio.abc.TaskGroup) -> Pause | float | None:
        """Those who stand in the queue, or some of them. None if more may come."""
        listener = door.listener
        for _ in range(AT_ONCE):
            if self._doors.full:
                return Pause.FULL
            try:
                client, address = door.listening.accept()
            except BlockingIOError:
                return None
            except OSError as error:
                if error.errno in _NO_ROOM:
                    reason, inside = str(error), self._doors.inside
                    log.warning("listener.exhausted", listener=listener.name, reason=reason, inside=inside)
                    return Pause.NO_ROOM
                continue  # others are of the client that is gone already
            client.setblocking(False)
            peer = _address(address)
            wait = self._doors.too_fast(peer[0])
            if wait > 0:
                doors.start_soon(self._turn_away, client, peer[0], listener.name, wait)
                continue
            connection = self._welcome(client, peer, door)
            if connection is None:
                continue
            if listener.tls is None:  # two turns of the loop; half adopted it would be nobody's
                self._adopting += 1
                adopt(client, connection, partial(self._adopted, client, connection))
            else:  # a handshake takes its time, and the end of the server does not wait for it
                doors.start_soon(self._adopt, client, connection, listener.tls)
            if self._doors.paced and (wait := self._doors.came(listener.name, self._clock.monotonic())) > 0:
                return wait
        return None

    def _adopted(self, client: socket.socket, connection: Connection, error: OSError | None) -> None:
        self._adopting -= 1
        if error is not None:
            self._not_adopted(client, connection)
        if not self._adopting:
            self._look_again()

    async def _adopt(self, client: socket.socket, connection: Connection, tls: Tls) -> None:
        facts, reason = connection.facts, ""
        with anyio.CancelScope() as scope:
            self._shaking[connection] = scope
            if len(self._shaking) > HANDSHAKES:
                self._shaking.pop(next(iter(self._shaking))).cancel()
            try:
                await adopt_after_handshake(client, connection, tls)
            except OSError as error:
                reason = mistake(error)
                error.__traceback__ = None  # whose frames hold the error, and asyncio's 256 KiB for each handshake
            except Exception:  # whatever a client's bytes brought to light costs the client, never the broker
                log.exception("connection.failed", peer=peer_name(facts), listener=facts.listener)
                reason = "the TLS handshake failed"
            finally:
                self._shaking.pop(connection, None)
        if scope.cancelled_caught:
            reason = f"more than {HANDSHAKES} TLS handshakes at once, and this was the oldest"
        if reason:
            self._not_adopted(client, connection)
            if self._shared.complaints.may_log(facts.peer[0]):
                log.info("connection.refused", peer=peer_name(facts), listener=facts.listener, reason=reason)

    def _not_adopted(self, client: socket.socket, connection: Connection) -> None:
        """A connection that was made is among `_connections` and says itself when it is gone."""
        client.close()
        if connection not in self._connections:
            connection.abort()
            self._left(connection.facts)

    async def _turn_away(self, client: socket.socket, host: str, listener: str, seconds: float) -> None:
        """He who comes too fast is kept waiting and then turned away, so that he does not come again at once."""
        if self._shared.complaints.may_log(host):
            log.info("connection.refused", peer=host, listener=listener, reason="connection_creation_rate")
        self._doors.held += 1
        try:
            if self._doors.held <= self._doors.HELD:
                await self._clock.wait(anyio.Event(), seconds)
        finally:
            self._doors.held -= 1
            client.close()

    def _welcome(self, client: socket.socket, peer: tuple[str, int], door: _Door) -> Connection | None:
        listener, local = door.listener, door.name
        if local is None:
            try:
                local = _address(client.getsockname())
            except OSError:  # gone while it stood in the queue
                client.close()
                return None
        if not self._doors.enter(peer[0]):
            client.close()
            if self._shared.complaints.may_log(peer[0]):
                log.info("connection.refused", peer=peer[0], listener=listener.name, reason="max.connections.per.ip")
            return None
        facts = ConnectionFacts(id=next(self._ids), listener=listener.name, peer=peer, local=local)
        gate = None if listener.sasl is None else Gate(listener.sasl, self._answer)
        return Connection(self._shared, facts, listener.tls, gate)

    def _gone(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._left(connection.facts)

    def _left(self, facts: ConnectionFacts) -> None:
        self._doors.leave(facts.peer[0])
        self._look_again()

    def _look_again(self) -> None:
        self._someone_left.ring()

    async def _sweep(self) -> None:
        never = anyio.Event()
        minute = self._clock.monotonic()
        while True:
            await self._clock.wait(never, SWEEP_EVERY)
            now = self._clock.monotonic()
            for connection in list(self._connections):
                connection.sweep(now)
            if now - minute >= 60:
                minute = now
                for host, lines in self._shared.complaints.new_minute().items():
                    log.info("connection.complaints", host=host, left_out=lines)

    async def _drain(self) -> None:
        for connection in list(self._connections):
            connection.leave()
        over = self._clock.monotonic() + self._limits.shutdown_grace_ms / 1000
        while self._connections and self._clock.monotonic() < over:
            await self._clock.wait(self._someone_left.next(), over - self._clock.monotonic())

    async def _cut_off(self) -> None:
        if self._connections:
            log.debug("listener.cut_off", connections=len(self._connections))
        for connection in list(self._connections):
            connection.abort()
        while self._connections:
            await self._someone_left.next().wait()


def bind(address: ListenerAddress) -> list[socket.socket]:
    """Listening sockets for every address of the host, all on one port. A host name may have several."""
    try:
        for _ in range(_PORT_ZERO_TRIES):
            try:
                return _bind_all(address)
            except OSError as error:
                # The port that the system chose for the first address may be taken on the second: choose again.
                if address.port != 0 or error.errno != errno.EADDRINUSE:
                    raise
        raise OSError(errno.EADDRINUSE, "no port is free on all addresses of the host")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise StartRefused(f"cannot listen on {address}: {reason}") from None


def _bind_all(address: ListenerAddress) -> list[socket.socket]:
    host = address.host or ("::" if socket.has_dualstack_ipv6() else "0.0.0.0")
    opened: list[socket.socket] = []
    port = address.port
    refused = OSError(errno.EADDRNOTAVAIL, f"{address.host!r} has no address")
    found = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    try:
        for family, _, _, _, where in dict.fromkeys(found):
            try:
                one = _open(family, (where[0], port, *where[2:]))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                refused = error  # a name with an IPv6 address on a machine without IPv6 is fine
            else:
                opened.append(one)
                port = one.getsockname()[1]
        if not opened:
            raise refused
    except OSError:
        for one in opened:
            one.close()
        raise
    return opened


def _open(family: int, where: tuple[str | int, ...]) -> socket.socket:
    one = QuickSocket(family, socket.SOCK_STREAM)
    try:
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Whoever is accepted has these from the start, for one call instead of one each.
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if where[0] == "::" else 1)
        one.bind(where)
        one.listen(BACKLOG)
    except OSError:
        one.close()
        raise
    return one


def _own_name(listening: socket.socket) -> tuple[str, int] | None:
    name = listening.getsockname()
    return None if name[0] in ("0.0.0.0", "::") else _address(name)  # nosec B104


def _address(name: tuple[str, int] | tuple[str, int, int, int]) -> tuple[str, int]:
    """Host and port; an IPv4 client of a dual-stack socket is called by its IPv4 address."""
    return name[0].removeprefix("::ffff:"), name[1]
