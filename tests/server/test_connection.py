from __future__ import annotations

import contextlib
import errno
import gc
import os
import random
import socket
import struct
import threading
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest
import structlog.testing

from broker_lite.apis.registry import Answer, ConnectionFacts
from broker_lite.errors import Malformed
from broker_lite.log.disk import Disk, RealDisk
from broker_lite.log.memory_disk import MemoryDisk
from broker_lite.log.slice import FileSlice
from broker_lite.server.connection import Connection
from broker_lite.server.limits import Limits
from tests.server.conftest import PATIENCE, Client, Server, echo, framed
from tests.support.waiting import until

Run = Callable[..., Server]
MIB = 1 << 20
_PATTERN = bytes(range(256)) * 4096


class Slice:
    """A piece on disk, as far as the server can tell."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.read_so_far = 0
        self.released = threading.Event()

    def __len__(self) -> int:
        return self.size

    def read(self, start: int, n: int) -> bytes:
        assert not self.released.is_set()
        assert start == self.read_so_far
        part = _PATTERN[: min(n, self.size - start)]
        self.read_so_far += len(part)
        return part

    def send(self, socket: int, start: int) -> int:
        assert not self.released.is_set()
        assert start == self.read_so_far
        sent = os.write(socket, _PATTERN[: min(MIB, self.size - start)])
        self.read_so_far += sent
        return sent

    def release(self) -> None:
        assert not self.released.is_set(), "released twice"
        self.released.set()


class Parking:
    """Requests that start with `w` wait until `go`; others are echoed at once."""

    def __init__(self) -> None:
        self.started = threading.Semaphore(0)
        self.cancelled = threading.Event()
        self.asked: list[bytes] = []
        self._go: anyio.Event | None = None

    def __call__(self, connection: ConnectionFacts, frame: memoryview) -> Answer | Awaitable[Answer]:
        self.asked.append(bytes(frame))
        return self._wait(frame) if frame[0] == ord("w") else [framed(bytes(frame))]

    async def _wait(self, frame: memoryview) -> Answer:
        self._go = self._go or anyio.Event()
        self.started.release()
        try:
            await self._go.wait()
        except BaseException:
            self.cancelled.set()
            raise
        return [framed(bytes(frame))]

    def go(self) -> None:
        assert self._go is not None
        self._go.set()


def test_a_request_is_answered(run: Run) -> None:
    client = run().client()
    client.ask(b"hello")
    assert client.hear() == b"hello"


def test_pipelined_requests_are_answered_in_order(run: Run) -> None:
    client = run().client()
    questions = [b"%d" % n for n in range(2000)]
    client.ask(*questions)
    assert [client.hear() for _ in questions] == questions


def test_a_request_may_come_byte_by_byte(run: Run) -> None:
    client = run().client()
    for byte in framed(b"slow") + framed(b"ly"):
        client.send(bytes([byte]))
    assert [client.hear(), client.hear()] == [b"slow", b"ly"]


@pytest.mark.parametrize("size", [0, 262_139, 262_140, 262_141, MIB, 5 * MIB + 1])
def test_a_request_of_any_size_arrives_whole_and_so_do_its_neighbours(run: Run, size: int) -> None:
    client = run().client()
    large = bytes(range(256)) * (size // 256 + 1)
    writer = threading.Thread(target=client.ask, args=(b"before", large[:size], b"after", large[:size], b"end"))
    writer.start()
    assert client.hear() == b"before"
    assert client.hear() == large[:size]
    assert client.hear() == b"after"
    assert client.hear() == large[:size]
    assert client.hear() == b"end"
    writer.join()


def test_a_request_without_a_reply_does_not_stall_the_next(run: Run) -> None:
    client = run(lambda facts, frame: None if frame[:1] == b"0" else echo(facts, frame)).client()
    client.ask(b"0", b"0", b"a", b"0", b"b")
    assert [client.hear(), client.hear()] == [b"a", b"b"]


def test_the_frame_stays_true_while_its_request_waits(run: Run) -> None:
    parking = Parking()
    server = run(parking)
    client, other = server.client(), server.client()
    client.ask(b"w" + b"mine" * 1000)
    assert parking.started.acquire(timeout=PATIENCE)
    other.ask(b"x" * 100_000)
    assert other.hear() == b"x" * 100_000
    server.portal.call(parking.go)
    assert client.hear() == b"w" + b"mine" * 1000


def test_while_a_request_waits_the_next_ones_wait_too(run: Run) -> None:
    parking = Parking()
    server = run(parking)
    client = server.client()
    client.ask(b"a", b"w1", b"b", b"w2", b"c")
    assert client.hear() == b"a"
    assert parking.started.acquire(timeout=PATIENCE)
    server.turn()
    assert parking.asked == [b"a", b"w1"]
    server.portal.call(parking.go)
    assert [client.hear() for _ in range(4)] == [b"w1", b"b", b"w2", b"c"]


def test_while_a_request_waits_the_server_stops_reading_after_one_more(run: Run) -> None:
    parking = Parking()
    server = run(parking)
    client = server.client()
    client.ask(b"w")
    assert parking.started.acquire(timeout=PATIENCE)
    client.socket.settimeout(0.3)
    request = framed(b"n" * MIB)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 64 * MIB:
            sent += client.socket.send(request[sent % len(request) :])
    assert sent < 32 * MIB  # one request, and what the kernel holds
    client.socket.settimeout(PATIENCE)
    server.portal.call(parking.go)
    rest = threading.Thread(target=client.send, args=(request[sent % len(request) :],))
    rest.start()
    assert client.hear() == b"w"
    for _ in range(-(-sent // len(request))):
        assert client.hear() == request[4:]
    rest.join()


def test_a_disconnect_cancels_the_request_that_waits(run: Run) -> None:
    parking = Parking()
    client = run(parking).client()
    client.ask(b"w")
    assert parking.started.acquire(timeout=PATIENCE)
    client.close()
    assert parking.cancelled.wait(PATIENCE)


def test_who_is_gone_is_forgotten_without_the_collector(run: Run) -> None:
    server = run()
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            client = Client(server.port)
            client.ask(b"one")
            assert client.hear() == b"one"
            client.close()
        until(lambda: not _connections(), within=PATIENCE, what="nobody left")
    finally:
        gc.enable()


def _connections() -> list[Connection]:
    return [one for one in gc.get_objects() if type(one) is Connection]


def test_a_reset_cancels_the_request_that_waits(run: Run) -> None:
    parking = Parking()
    client = run(parking).client()
    client.ask(b"w")
    assert parking.started.acquire(timeout=PATIENCE)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert parking.cancelled.wait(PATIENCE)


def test_the_last_request_of_a_client_that_hangs_up_has_its_first_step(run: Run) -> None:
    parking = Parking()
    server = run(parking)
    for _ in range(50):
        client = Client(server.port)
        client.ask(b"w")
        client.close()
        assert parking.started.acquire(timeout=PATIENCE)


def test_all_that_was_asked_before_a_client_hangs_up_is_done(run: Run) -> None:
    parking = Parking()
    server = run(parking)
    client = server.client()
    client.ask(b"w", b"0", b"1", b"2")
    client.socket.shutdown(socket.SHUT_WR)
    assert parking.started.acquire(timeout=PATIENCE)
    server.portal.call(parking.go)
    assert [client.hear() for _ in range(4)] == [b"w", b"0", b"1", b"2"]
    assert client.is_hung_up_on()


def test_a_half_closed_client_still_hears_a_long_answer(run: Run) -> None:
    piece = Slice(20 * MIB)
    client = run(lambda facts, frame: [struct.pack(">i", len(piece)), piece]).client()
    client.ask(b"?")
    client.socket.shutdown(socket.SHUT_WR)
    assert len(client.hear()) == 20 * MIB
    assert client.is_hung_up_on()


@pytest.mark.parametrize("size", [-1, -(2**31), 104_857_601, 2**31 - 1])
def test_a_frame_with_an_impossible_size_closes_the_connection(run: Run, size: int) -> None:
    with structlog.testing.capture_logs() as logs:
        client = run().client()
        client.ask(b"a")
        client.send(struct.pack(">i", size) + b"x")
        assert client.hear() == b"a"
        assert client.is_hung_up_on()
    refused = [line for line in logs if line["event"] == "connection.refused"]
    assert len(refused) == 1
    assert str(size) in refused[0]["reason"]
    assert refused[0]["peer"].startswith("127.0.0.1:")


def test_memory_follows_what_has_arrived_and_not_what_was_announced(run: Run) -> None:
    server = run()
    tracemalloc.start()
    try:
        clients = [server.client() for _ in range(50)]
        for client in clients:
            client.send(struct.pack(">i", 100_000_000) + b"x" * 100)
        probe = server.client()
        probe.ask(b"all of it is read")
        assert probe.hear()
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("start", "word"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"),
        (b"POST /topics HTTP/1.1\r\n\r\n", "HTTP"),
        (bytes.fromhex("16030100f8010000f40303"), "TLS"),
    ],
)
@pytest.mark.parametrize("limit", [104_857_600, 2**31 - 1])
def test_a_client_of_another_protocol_is_named_in_the_log(run: Run, start: bytes, word: str, limit: int) -> None:
    with structlog.testing.capture_logs() as logs:
        client = run(limits=Limits(request_max_bytes=limit)).client()
        client.send(start)
        assert client.is_hung_up_on()
    assert [word in line["reason"] for line in logs if line["event"] == "connection.refused"] == [True]


def test_bad_bytes_cost_the_connection_but_not_the_answers_before_them(run: Run) -> None:
    def answer(facts: ConnectionFacts, frame: memoryview) -> Answer:
        if frame[0] == ord("!"):
            raise Malformed("no such topic: \x1b[31m\n" + "x" * 1000)
        return echo(facts, frame)

    with structlog.testing.capture_logs() as logs:
        server = run(answer)
        client, other = server.client(), server.client()
        client.ask(b"a", b"b", b"!", b"c")
        assert [client.hear(), client.hear()] == [b"a", b"b"]
        assert client.is_hung_up_on()
        other.ask(b"still here")
        assert other.hear() == b"still here"
    (line,) = [line for line in logs if line["event"] == "connection.refused"]
    assert "\x1b" not in line["reason"]
    assert "\n" not in line["reason"]
    assert len(line["reason"]) < 300


@pytest.mark.parametrize("waits", [False, True])
def test_a_bug_costs_the_connection_and_nothing_else(run: Run, waits: bool) -> None:
    async def later() -> Answer:
        raise ZeroDivisionError

    def answer(facts: ConnectionFacts, frame: memoryview) -> Answer | Awaitable[Answer]:
        if frame[0] != ord("!"):
            return echo(facts, frame)
        if waits:
            return later()
        raise ZeroDivisionError

    with structlog.testing.capture_logs() as logs:
        server = run(answer)
        client, other = server.client(), server.client()
        client.ask(b"!")
        assert client.is_hung_up_on()
        other.ask(b"still here")
        assert other.hear() == b"still here"
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["connection.failed"]


def test_lazy_pieces_are_sent_between_plain_ones_and_released(run: Run) -> None:
    first, second = Slice(3 * MIB), Slice(10)
    sizes = 2 + len(first) + 100_000 + len(second) + 1
    pieces = [struct.pack(">i", sizes) + b"ab", first, b"c" * 100_000, second, b"d"]
    client = run(lambda facts, frame: list(pieces)).client()
    client.ask(b"?")
    heard = client.hear()
    assert heard[:2] == b"ab"
    assert heard[2 + 3 * MIB :][:100_000] == b"c" * 100_000
    assert heard[-11:] == bytes(range(10)) + b"d"
    assert first.released.wait(PATIENCE)
    assert second.released.wait(PATIENCE)


def test_a_reader_that_does_not_read_costs_a_chunk_and_not_its_answer(run: Run) -> None:
    piece = Slice(50 * MIB)
    server = run(
        lambda facts, frame: [struct.pack(">i", len(piece)), piece] if frame[:1] == b"?" else echo(facts, frame)
    )
    slow, other = server.client(receive_buffer=65536), server.client()
    slow.ask(b"?")
    slow.ask(b"and then")
    other.ask(b"quick")
    assert other.hear() == b"quick"
    server.turn()
    assert piece.read_so_far < 16 * MIB  # what the kernel took, and a chunk
    assert len(slow.hear()) == 50 * MIB
    assert piece.released.is_set()
    assert slow.hear() == b"and then"


@pytest.mark.parametrize("disk", [RealDisk(), MemoryDisk()], ids=["on disk", "in memory"])
def test_a_long_reply_from_a_file_reaches_a_slow_reader_byte_for_byte(run: Run, tmp_path: Path, disk: Disk) -> None:
    content = random.Random(5).randbytes(5 * MIB)
    disk.mkdir(tmp_path / "f")
    file = disk.open_append(tmp_path / "f" / "segment")
    file.append([content])
    head = struct.pack(">i", 2 * MIB + 7 + MIB) + b"between"

    def answer(facts: ConnectionFacts, frame: memoryview) -> Answer:
        return [head, FileSlice(file, MIB, 2 * MIB), FileSlice(file, 4 * MIB, MIB)]

    client = run(answer).client(receive_buffer=65536)
    client.ask(b"?", b"?")
    for _ in range(2):
        assert client.hear() == b"between" + content[MIB : 3 * MIB] + content[4 * MIB :]


def test_what_cannot_be_sent_past_us_is_read(run: Run) -> None:
    class Stubborn(Slice):
        def send(self, socket: int, start: int) -> int:
            raise OSError(errno.EINVAL, "not this one")

    piece = Stubborn(3 * MIB)
    client = run(lambda facts, frame: [struct.pack(">i", len(piece)), piece]).client()
    client.ask(b"?")
    assert len(client.hear()) == 3 * MIB
    assert piece.released.wait(PATIENCE)


def test_a_reader_that_leaves_releases_its_answer(run: Run) -> None:
    piece = Slice(50 * MIB)
    server = run(lambda facts, frame: [struct.pack(">i", len(piece)), piece])
    client = server.client(receive_buffer=65536)
    client.ask(b"?")
    client.read(10)
    client.close()
    assert piece.released.wait(PATIENCE)


def test_a_piece_that_ends_too_soon_costs_the_connection(run: Run) -> None:
    class Short(Slice):
        def read(self, start: int, n: int) -> bytes:
            return b"" if start else b"x"

    piece = Short(100)
    with structlog.testing.capture_logs() as logs:
        client = run(lambda facts, frame: [struct.pack(">i", 100), piece]).client()
        client.ask(b"?")
        with pytest.raises((EOFError, ConnectionResetError)):
            client.hear()
    assert piece.released.wait(PATIENCE)
    assert "connection.failed" in [line["event"] for line in logs]


def test_large_plain_replies_arrive_whole(run: Run) -> None:
    reply = bytes(range(256)) * 40_000
    client = run(lambda facts, frame: [struct.pack(">i", len(reply)), bytearray(reply)]).client(receive_buffer=65536)
    client.ask(b"?", b"?")
    assert client.hear() == reply
    assert client.hear() == reply
