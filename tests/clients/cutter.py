"""A wire between clients and a broker that breaks when it is asked to: after a write was taken, before it is told.

The broker is told to advertise this address, so clients come here whatever they do.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

PRODUCE = 0


class Cutter:
    """Accepts on a port of the loopback and passes everything on, until a produce is to be cut."""

    def __init__(self) -> None:
        self._door = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._door.getsockname()[1]}"
        self._broker = ("", 0)
        self._lock = threading.Lock()
        self._to_cut = 0
        self.cuts = 0
        """How many answers to a produce were never told."""

    def lead_to(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._broker = (host, int(port))
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_next_produce(self) -> None:
        with self._lock:
            self._to_cut, self.cuts = 1, 0

    def close(self) -> None:
        self._door.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._door.accept()
                broker = socket.create_connection(self._broker)
            except OSError:
                return
            threading.Thread(target=_Pair(self, client, broker).run, daemon=True).start()

    def take_cut(self) -> bool:
        with self._lock:
            if not self._to_cut:
                return False
            self._to_cut -= 1
            self.cuts += 1
            return True


class _Pair:
    """One client's connection and the one to the broker that belongs to it."""

    def __init__(self, cutter: Cutter, client: socket.socket, broker: socket.socket) -> None:
        self._cutter, self._client, self._broker = cutter, client, broker
        self._doomed = threading.Event()

    def run(self) -> None:
        answers = threading.Thread(target=self._pump, args=(self._broker, self._client, self._is_silent), daemon=True)
        answers.start()
        self._pump(self._client, self._broker, self._look)
        answers.join()

    def _pump(self, source: socket.socket, target: socket.socket, stop: Callable[[bytes], bool]) -> None:
        try:
            while frame := _frame(source):
                if stop(frame):
                    break
                target.sendall(frame)
        except OSError:
            pass  # either side hung up
        finally:
            for one in (source, target):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)  # close alone would wait for the thread that reads on the other side
                one.close()

    def _look(self, request: bytes) -> bool:
        (key,) = struct.unpack_from(">h", request, 4)
        if key == PRODUCE and self._cutter.take_cut():
            self._doomed.set()
        return False

    def _is_silent(self, answer: bytes) -> bool:
        return self._doomed.is_set()


def _frame(source: socket.socket) -> bytes:
    """A whole request or answer with its length in front; nothing at the end."""
    head = _exactly(source, 4)
    return head + _exactly(source, *struct.unpack(">i", head)) if head else b""


def _exactly(source: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = source.recv(size - len(data))
        if not part:
            return b""
        data += part
    return bytes(data)
