"""A real server on a real port under either event loop, and clients that are plain blocking sockets."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator

import anyio
import anyio.from_thread
import pytest

from broker_lite.apis.registry import Answer, ConnectionFacts
from broker_lite.clock import Clock, SystemClock
from broker_lite.server.limits import Doors, Limits
from broker_lite.server.listener import ListenerAddress, serve

PATIENCE = 20.0
Answerer = Callable[[ConnectionFacts, memoryview], Answer | Awaitable[Answer]]


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def echo(connection: ConnectionFacts, frame: memoryview) -> Answer:
    return [framed(bytes(frame))]


class Client:
    """Sends frames and bytes, reads frames; `closed` when the server hangs up."""

    def __init__(self, port: int, host: str = "127.0.0.1", receive_buffer: int | None = None) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE)
        self.socket.connect((host, port))

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, *payloads: bytes) -> None:
        self.send(b"".join(map(framed, payloads)))

    def read(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            more = self.socket.recv(min(1 << 20, size - len(got)))
            if not more:
                raise EOFError(f"hung up after {len(got)} of {size} bytes")
            got += more
        return bytes(got)

    def hear(self) -> bytes:
        (size,) = struct.unpack(">i", self.read(4))
        return self.read(size)

    def is_hung_up_on(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.socket.close()


class Server:
    """Runs in a thread; everything in it is called through the portal."""

    def __init__(self, portal: anyio.from_thread.BlockingPortal, clock: Clock) -> None:
        self.portal = portal
        self.clock = clock
        self.bound: list[ListenerAddress] = []
        self.stop = portal.call(anyio.Event)
        self.clients: list[Client] = []
        self.stopped = threading.Event()

    @property
    def port(self) -> int:
        return self.bound[0].port

    def client(self, receive_buffer: int | None = None) -> Client:
        client = Client(self.port, receive_buffer=receive_buffer)
        self.clients.append(client)
        return client

    def begin_stop(self) -> None:
        self.portal.call(self.stop.set)

    def turn(self) -> None:
        """A few turns of the loop: what was ready to happen has happened."""
        for _ in range(5):
            self.portal.call(anyio.lowlevel.checkpoint)


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Iterator[Callable[..., Server]]:
    """run(answer, limits=…, clock=…) -> Server"""
    with contextlib.ExitStack() as ends:

        def start(
            answer: Answerer = echo,
            limits: Limits | None = None,
            clock: Clock | None = None,
            listeners: list[ListenerAddress] | None = None,
            doors: Doors | None = None,
        ) -> Server:
            portal = ends.enter_context(
                anyio.from_thread.start_blocking_portal(
                    "asyncio", backend_options={"use_uvloop": request.param == "uvloop"}
                )
            )
            server = Server(portal, clock or SystemClock())
            ready = threading.Event()

            def on_ready(bound: list[ListenerAddress]) -> None:
                server.bound = bound
                ready.set()

            async def life() -> None:
                where = listeners or [ListenerAddress("PLAINTEXT", "127.0.0.1", 0)]
                try:
                    await serve(
                        answer,
                        where,
                        limits or Limits(),
                        on_ready,
                        stop=server.stop,
                        clock=server.clock,
                        doors=doors,
                    )
                finally:
                    server.stopped.set()
                    ready.set()

            future = portal.start_task_soon(life)
            ends.callback(end, server, future)
            assert ready.wait(PATIENCE)
            if not server.bound:
                future.result(PATIENCE)
            return server

        def end(server: Server, future: object) -> None:
            for client in server.clients:
                client.close()
            server.begin_stop()
            assert server.stopped.wait(PATIENCE), "the server did not stop"

        yield start
