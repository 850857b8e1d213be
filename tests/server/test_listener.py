from __future__ import annotations

import contextlib
import resource
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Callable

import pytest
import structlog.testing

from broker_lite.apis.registry import Answer, ConnectionFacts
from broker_lite.broker.responses import MAX_PENDING, READ_TIMEOUT_S, ResponseBudget
from broker_lite.clock import ManualClock
from broker_lite.errors import StartRefused
from broker_lite.server.limits import Doors, Limits
from broker_lite.server.listener import ListenerAddress, bind
from tests.server.conftest import PATIENCE, Client, Server, framed
from tests.server.test_connection import Parking, Slice

Run = Callable[..., Server]


def pass_time(server: Server, seconds: float) -> None:
    """The sweeper comes by about once a second of this clock."""
    clock = server.clock
    assert isinstance(clock, ManualClock)
    while seconds > 0:
        step = min(seconds, 1.0)
        seconds -= step
        server.portal.call(clock.advance, step)
        server.turn()


def test_the_real_ports_are_told_before_anybody_is_accepted(run: Run) -> None:
    server = run(listeners=[ListenerAddress("A", "127.0.0.1", 0), ListenerAddress("B", "127.0.0.1", 0)])
    assert [address.name for address in server.bound] == ["A", "B"]
    assert all(address.port > 0 for address in server.bound)
    assert server.bound[0].port != server.bound[1].port


def test_a_connection_knows_by_which_listener_it_came(run: Run) -> None:
    def who(facts: ConnectionFacts, frame: memoryview) -> Answer:
        return [framed(f"{facts.listener} {facts.peer} {facts.local}".encode())]

    server = run(who, listeners=[ListenerAddress("A", "127.0.0.1", 0), ListenerAddress("B", "127.0.0.1", 0)])
    client = Client(server.bound[1].port)
    client.ask(b"?")
    own, port = client.socket.getsockname()
    assert client.hear() == f"B {(own, port)} {('127.0.0.1', server.bound[1].port)}".encode()
    client.close()


@pytest.mark.parametrize("host", ["", "::", "localhost", "0.0.0.0"])
def test_ipv4_and_ipv6_reach_the_same_port(run: Run, host: str) -> None:
    def who(facts: ConnectionFacts, frame: memoryview) -> Answer:
        return [framed(f"{facts.peer[0]} {facts.local[0]}".encode())]

    server = run(who, listeners=[ListenerAddress("A", host, 0)])
    client = server.client()
    client.ask(b"?")
    assert client.hear() == b"127.0.0.1 127.0.0.1"
    if socket.has_ipv6 and host in ("", "::"):
        six = Client(server.port, "::1")
        six.ask(b"?")
        assert six.hear() == b"::1 ::1"
        six.close()


def test_a_port_in_use_is_one_line() -> None:
    (taken,) = bind(ListenerAddress("A", "127.0.0.1", 0))
    port = taken.getsockname()[1]
    with pytest.raises(StartRefused, match=rf"^cannot listen on B://127.0.0.1:{port}: Address already in use$"):
        bind(ListenerAddress("B", "127.0.0.1", port))
    taken.close()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "192.0.2.1", "a" * 300])
def test_a_host_that_is_not_ours_is_one_line(host: str) -> None:
    with pytest.raises(StartRefused) as refused:
        bind(ListenerAddress("A", host, 0))
    assert str(refused.value).startswith("cannot listen on A://")
    assert "\n" not in str(refused.value)


def test_beyond_max_connections_clients_wait_in_line(run: Run) -> None:
    server = run(limits=Limits(max_connections=2))
    inside = [server.client(), server.client()]
    for client in inside:
        client.ask(b"in")
        assert client.hear() == b"in"
    waiting = server.client()
    waiting.ask(b"me too")
    inside[0].ask(b"again")
    assert inside[0].hear() == b"again"
    waiting.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        waiting.socket.recv(1)
    waiting.socket.settimeout(PATIENCE)
    inside[1].close()
    assert waiting.hear() == b"me too"


def test_those_in_line_come_in_when_more_are_allowed(run: Run) -> None:
    doors = Doors(Limits(max_connections=1))
    server = run(doors=doors)
    inside, waiting = server.client(), server.client()
    for client in (inside, waiting):
        client.ask(b"in")
    assert inside.hear() == b"in"
    server.portal.call(doors.obey, Limits(max_connections=2))
    assert waiting.hear() == b"in"


def test_who_comes_too_fast_is_kept_waiting_and_turned_away(run: Run) -> None:
    rates = iter([0.0, 0.7, 0.0])
    server = run(doors=Doors(Limits(), lambda host: next(rates) if host == "127.0.0.1" else 0.0), clock=ManualClock())
    first, fast = server.client(), server.client()
    first.ask(b"in")
    assert first.hear() == b"in"
    fast.ask(b"me too")
    server.turn()
    fast.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        fast.socket.recv(1)
    fast.socket.settimeout(PATIENCE)
    pass_time(server, 1)
    assert fast.is_hung_up_on()
    later = server.client()
    later.ask(b"in")
    assert later.hear() == b"in"


def test_beyond_max_connections_per_ip_clients_are_turned_away(run: Run) -> None:
    server = run(limits=Limits(max_connections_per_ip=2))
    inside = [server.client(), server.client()]
    for client in inside:
        client.ask(b"in")
        assert client.hear() == b"in"
    assert server.client().is_hung_up_on()
    inside[1].ask(b"still in")
    assert inside[1].hear() == b"still in"


def test_an_idle_connection_is_closed(run: Run) -> None:
    server = run(limits=Limits(max_idle_ms=10_000), clock=ManualClock())
    idle, lively = server.client(), server.client()
    for _ in range(3):
        lively.ask(b"a")
        assert lively.hear() == b"a"
        pass_time(server, 4)
    assert idle.is_hung_up_on()
    lively.ask(b"b")
    assert lively.hear() == b"b"


def test_below_zero_no_connection_is_ever_idle(run: Run) -> None:
    server = run(limits=Limits(max_idle_ms=-1), clock=ManualClock())
    client = server.client()
    client.ask(b"a")
    assert client.hear() == b"a"
    pass_time(server, 3600)
    client.ask(b"b")
    assert client.hear() == b"b"


def test_a_connection_whose_request_waits_is_not_idle(run: Run) -> None:
    parking = Parking()
    server = run(parking, limits=Limits(max_idle_ms=10_000), clock=ManualClock())
    client = server.client()
    client.ask(b"w")
    assert parking.started.acquire(timeout=PATIENCE)
    pass_time(server, 30)
    server.portal.call(parking.go)
    assert client.hear() == b"w"


def test_a_long_response_that_nobody_reads_does_not_keep_others_from_theirs(run: Run) -> None:
    budget = ResponseBudget()

    def answer(connection: ConnectionFacts, frame: memoryview) -> Answer | Awaitable[Answer]:
        if bytes(frame) == b"wait":
            return wait(frame)
        return [struct.pack(">i", MAX_PENDING), *budget.hold([bytes(MAX_PENDING)])]

    async def wait(frame: memoryview) -> Answer:
        await budget.enter()
        budget.leave()
        return [framed(bytes(frame))]

    server = run(answer, clock=ManualClock())
    stalled, waiting = server.client(receive_buffer=4096), server.client()
    stalled.ask(b"long")
    assert stalled.read(4) == struct.pack(">i", MAX_PENDING)
    pass_time(server, 2 * READ_TIMEOUT_S)
    assert stalled.read(10) == bytes(10), "while nobody waits it may take its time"
    waiting.ask(b"wait")
    while not budget.is_short:
        server.turn()
    pass_time(server, READ_TIMEOUT_S + 3)
    assert waiting.hear() == b"wait"
    with pytest.raises((EOFError, ConnectionResetError)):
        stalled.read(MAX_PENDING)
    assert budget.pending == 0


def test_a_reader_that_stopped_reading_is_closed_in_the_end(run: Run) -> None:
    piece = Slice(50 << 20)
    server = run(
        lambda facts, frame: [struct.pack(">i", len(piece)), piece],
        limits=Limits(max_idle_ms=10_000),
        clock=ManualClock(),
    )
    client = server.client(receive_buffer=65536)
    client.ask(b"?")
    client.read(4)
    pass_time(server, 15)
    assert piece.released.wait(PATIENCE)


def test_a_request_that_does_not_arrive_in_time_closes_its_connection(run: Run) -> None:
    with structlog.testing.capture_logs() as logs:
        server = run(limits=Limits(read_frame_ms=30_000), clock=ManualClock())
        slow, slower, fair = server.client(), server.client(), server.client()
        slower.send(b"\0")
        slow.send(struct.pack(">i", 10_000))
        fair.send(struct.pack(">i", 1_000_000) + b"x" * 500_000)
        for _ in range(29):
            slow.send(b"x")
            fair.send(b"x" * 16_384)
            server.turn()
            pass_time(server, 1)
        assert not any(line["event"] == "connection.refused" for line in logs)
        pass_time(server, 4)
        assert slow.is_hung_up_on()
        assert slower.is_hung_up_on()
        fair.send(b"x" * (500_000 - 29 * 16_384))
        assert len(fair.hear()) == 1_000_000
    assert sum(line["event"] == "connection.refused" for line in logs) == 2


def test_a_large_request_that_stalls_is_given_no_credit_for_what_came(run: Run) -> None:
    server = run(limits=Limits(read_frame_ms=30_000), clock=ManualClock())
    stalled = server.client()
    stalled.send(struct.pack(">i", 90 << 20) + bytes(32 << 20))
    server.turn()
    pass_time(server, 35)
    assert stalled.is_hung_up_on()


@pytest.mark.parametrize("drip", [0, 20_000])
def test_a_request_that_stalls_gives_way_to_those_who_wait_for_its_memory(run: Run, drip: int) -> None:
    server = run(limits=Limits(queued_max_request_bytes=1 << 20, read_frame_ms=30_000), clock=ManualClock())
    stalled = server.client()
    stalled.send(struct.pack(">i", 90 << 20) + bytes(2 << 20))
    server.turn()
    waiting = server.client()
    waiting.send(struct.pack(">i", 500_000) + bytes(500_000))
    for _ in range(8):
        server.turn()
        with contextlib.suppress(ConnectionError):
            stalled.send(bytes(drip))
        pass_time(server, 1)
    assert stalled.is_hung_up_on()
    assert len(waiting.hear()) == 500_000


def test_a_request_that_is_parked_gives_way_to_those_who_wait_for_its_memory(run: Run) -> None:
    park = Parking()
    server = run(park, limits=Limits(queued_max_request_bytes=1 << 20, read_frame_ms=30_000), clock=ManualClock())
    parked, waiting = server.client(), server.client()
    parked.ask(b"w" + bytes(2 << 20))
    assert park.started.acquire(timeout=PATIENCE)
    waiting.send(framed(b"x" * 500_000))
    server.turn()
    pass_time(server, 35)
    assert parked.is_hung_up_on()
    assert len(waiting.hear()) == 500_000


def test_requests_behind_unread_answers_give_way_to_those_who_wait_for_their_memory(run: Run) -> None:
    server = run(limits=Limits(queued_max_request_bytes=1 << 20), clock=ManualClock())
    unread = [server.client(receive_buffer=4096) for _ in range(8)]
    for client in unread:
        client.socket.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            client.send(framed(b"x" * 60_000) * 400)
    waiting = server.client()
    waiting.send(framed(b"x" * 500_000))
    server.turn()
    pass_time(server, 30)
    assert len(waiting.hear()) == 500_000


def test_a_broken_client_does_not_fill_the_log(run: Run) -> None:
    with structlog.testing.capture_logs() as logs:
        server = run(clock=ManualClock())
        for _ in range(30):
            client = Client(server.port)
            client.send(b"GET / HTTP/1.1\r\n\r\n")
            assert client.is_hung_up_on()
            client.close()
        pass_time(server, 61)
    assert sum(line["event"] == "connection.refused" for line in logs) == 10
    assert [line["left_out"] for line in logs if line["event"] == "connection.complaints"] == [20]


def test_bytes_in_flight_are_bounded_and_everybody_is_served_in_the_end(run: Run) -> None:
    size = 2 << 20
    server = run(limits=Limits(queued_max_request_bytes=1 << 20))
    clients = [server.client() for _ in range(8)]
    for client in clients:
        client.send(struct.pack(">i", size) + b"x" * 200_000)
    writers = [threading.Thread(target=client.send, args=(b"x" * (size - 200_000),)) for client in clients]
    for writer in writers:
        writer.start()
    for client in clients:
        assert client.hear() == b"x" * size
    for writer in writers:
        writer.join()


def test_running_out_of_file_descriptors_is_survived(run: Run) -> None:
    with structlog.testing.capture_logs() as logs:
        server = run(clock=ManualClock())
        first = server.client()
        first.ask(b"in")
        assert first.hear() == b"in"
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        client = socket.socket()
        probe = socket.socket()
        lowest_free = probe.fileno()
        probe.close()
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limit[1]))
            client.settimeout(PATIENCE)
            client.connect(("127.0.0.1", server.port))
            client.sendall(framed(b"and me"))
            while not any(line["event"] == "listener.exhausted" for line in logs):
                first.ask(b"alive")
                assert first.hear() == b"alive"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        server.turn()
        assert sum(line["event"] == "listener.exhausted" for line in logs) == 1
        pass_time(server, 2)
        assert client.recv(100) == framed(b"and me")
        client.close()


def test_stopping_lets_the_request_in_progress_finish(run: Run) -> None:
    parking = Parking()
    server = run(parking, limits=Limits(shutdown_grace_ms=60_000), clock=ManualClock())
    client, idle = server.client(), server.client()
    client.ask(b"w", b"too late")
    assert parking.started.acquire(timeout=PATIENCE)
    idle.ask(b"a")
    assert idle.hear() == b"a"
    server.begin_stop()
    assert idle.is_hung_up_on()
    server.portal.call(parking.go)
    assert client.hear() == b"w"
    assert client.is_hung_up_on()
    assert server.stopped.wait(PATIENCE)
    assert b"too late" not in parking.asked
    with pytest.raises(ConnectionRefusedError):
        Client(server.port)


def test_when_the_grace_is_over_waiting_requests_are_cancelled(run: Run) -> None:
    parking = Parking()
    server = run(parking, limits=Limits(shutdown_grace_ms=2_000), clock=ManualClock())
    client = server.client()
    client.ask(b"w")
    assert parking.started.acquire(timeout=PATIENCE)
    server.begin_stop()
    pass_time(server, 1)
    assert not parking.cancelled.is_set()
    assert not server.stopped.is_set()
    pass_time(server, 2)
    assert parking.cancelled.wait(PATIENCE)
    assert client.is_hung_up_on()
    assert server.stopped.wait(PATIENCE)


def test_stopping_waits_for_no_slow_reader(run: Run) -> None:
    piece = Slice(50 << 20)
    server = run(lambda facts, frame: [struct.pack(">i", len(piece)), piece], limits=Limits(shutdown_grace_ms=100))
    client = server.client(receive_buffer=65536)
    client.ask(b"?")
    client.read(4)
    began = time.monotonic()
    server.begin_stop()
    assert server.stopped.wait(PATIENCE)
    assert time.monotonic() - began < 5
    assert piece.released.is_set()


def test_stopping_while_clients_come_in_waits_for_none_of_them(run: Run) -> None:
    server = run()
    for _ in range(100):
        server.client()
    server.begin_stop()
    assert server.stopped.wait(5)


def test_a_crowd_that_comes_at_once_is_let_in(run: Run) -> None:
    server = run()
    crowd = [server.client() for _ in range(100)]
    for number, client in enumerate(crowd):
        client.ask(b"%d" % number)
    assert [client.hear() for client in crowd] == [b"%d" % number for number in range(100)]
    for client in crowd:
        client.close()


def test_a_crowd_comes_in_only_up_to_max_connections(run: Run) -> None:
    server = run(limits=Limits(max_connections=3))
    crowd = [server.client() for _ in range(10)]
    for client in crowd:
        client.ask(b"in")
    for client in crowd:  # each leaves its place to the next
        assert client.hear() == b"in"
        client.close()


def test_who_is_accepted_inherits_what_the_listening_socket_was_told() -> None:
    (listening,) = bind(ListenerAddress("A", "127.0.0.1", 0))
    client = socket.create_connection(listening.getsockname())
    listening.setblocking(True)
    accepted, _ = listening.accept()
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    for one in (accepted, client, listening):
        one.close()


def test_who_comes_faster_than_the_rate_waits_in_line(run: Run) -> None:
    server = run(limits=Limits(creation_rates={"": 0.1}), clock=ManualClock())
    first, second, third = server.client(), server.client(), server.client()
    for client in (first, second, third):
        client.ask(b"in")
    assert [first.hear(), second.hear()] == [b"in", b"in"]  # one in ten seconds, and one who makes it too many
    server.turn()
    third.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        third.socket.recv(1)
    third.socket.settimeout(PATIENCE)
    pass_time(server, 2)
    assert third.hear() == b"in"
