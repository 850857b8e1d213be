"""What clients that have not logged in cost: the memory of a real broker, while they are there and after they are gone.

The bound is what docs/SECURITY.md promises, the fourth part of `queued.max.request.bytes`: 64 MiB.  Each attack comes
in waves, because what a wave leaves behind only shows with the next one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from broker_lite.cli import certs
from broker_lite.server.farewell import MAX_CLIENT_HELLO
from tests.support.broker import BrokerProcess
from tests.support.waiting import until

MIB = 1 << 20
BOUND = 64 * MIB
REMAINS = 16 * MIB
"""Over what a broker has that served one log-in, when all are gone."""
CLIENTS, WAVES = 120, 4
LARGE = 500_000
TOKENS = {
    "SCRAM-SHA-256": b"n,,n=" + b"a" * LARGE + b",r=abc",
    "SCRAM-SHA-512": b"n,,n=alice,r=" + b"a" * LARGE,
    "PLAIN": b"\0alice\0" + b"a" * LARGE,
    "OAUTHBEARER": b"n,,\x01auth=Bearer " + b"a" * LARGE + b"\x01\x01",
}
UNREADABLE = b"n,,n=\xff" + b"a" * 4000
"""As long as a SCRAM message may be, so it is read, and refused."""


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def handshake(mechanism: str, version: int = 1) -> bytes:
    return framed(struct.pack(">hhihh", 17, version, 7, -1, len(mechanism)) + mechanism.encode())


def authenticate(token: bytes) -> bytes:
    return framed(struct.pack(">hhihi", 36, 1, 7, -1, len(token)) + token)


def memory(broker: BrokerProcess) -> int:
    return int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def most_memory(broker: BrokerProcess) -> int:
    lines = Path(f"/proc/{broker.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    mechanisms = f"sasl.enabled.mechanisms={','.join(TOKENS)}"
    unsecured = "broker.lite.sasl.oauthbearer.unsecured=true"
    asked = ["--sasl-user", "alice:secret", "--set", mechanisms, "--set", unsecured]
    with BrokerProcess(tmp_path / "broker", asked) as broker:
        attack(broker, handshake("PLAIN"), authenticate(b"\0alice\0wrong"))
        yield broker


def attack(broker: BrokerProcess, first: bytes, then: bytes) -> None:
    """One client: a handshake, its answer, and what follows until the broker has heard enough."""
    with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", broker.port), 20) as client:
        client.sendall(first)
        client.recv(1000)
        client.sendall(then)
        while client.recv(65_536):
            pass


def waves(broker: BrokerProcess, first: bytes, then: bytes) -> None:
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(lambda _: attack(broker, first, then), range(CLIENTS * WAVES)))


@pytest.mark.parametrize(("mechanism", "version"), [*((one, 1) for one in TOKENS), ("SCRAM-SHA-256", 0)])
def test_large_messages_before_a_log_in_stay_below_the_bound(
    broker: BrokerProcess, mechanism: str, version: int
) -> None:
    before, token = memory(broker), TOKENS[mechanism]
    waves(broker, handshake(mechanism, version), authenticate(token) if version else framed(token))
    assert most_memory(broker) - before < BOUND
    assert memory(broker) - before < REMAINS


def test_messages_that_are_refused_leave_nothing_behind(broker: BrokerProcess) -> None:
    """They are within the limit, so they are looked at: what refuses them must not hold on to them."""
    before = memory(broker)
    for _ in range(3):
        waves(broker, handshake("SCRAM-SHA-256"), authenticate(UNREADABLE))
    assert memory(broker) - before < REMAINS


def test_clients_that_stop_after_their_first_message_hold_little_each(broker: BrokerProcess) -> None:
    before, many = memory(broker), 800
    first = f"n,,n={'a' * 1000}\U0001f600,r={'r' * 1000},x={'x' * 2000}".encode()
    with contextlib.ExitStack() as ends:
        for _ in range(many):
            client = ends.enter_context(socket.create_connection(("127.0.0.1", broker.port), 20))
            client.sendall(handshake("SCRAM-SHA-256"))
            client.recv(1000)
            client.sendall(authenticate(first))
            assert client.recv(4000)
        assert memory(broker) - before < many * 20_480 + 4 * MIB


def test_many_messages_ahead_before_a_log_in_stay_below_the_bound(broker: BrokerProcess) -> None:
    before = memory(broker)
    waves(broker, handshake("SCRAM-SHA-256"), authenticate(TOKENS["SCRAM-SHA-256"]) * 4)
    assert most_memory(broker) - before < BOUND
    assert memory(broker) - before < REMAINS


def test_frames_that_never_end_stay_below_the_bound(broker: BrokerProcess) -> None:
    """Before a mechanism is chosen a frame may have 512 KiB: 400 such clients would hold 200 MB."""
    before = memory(broker)
    with contextlib.ExitStack() as ends:
        for _ in range(400):
            client = ends.enter_context(socket.create_connection(("127.0.0.1", broker.port), 20))
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.send(struct.pack(">i", 524_288) + bytes(LARGE))
        until(lambda: memory(broker) - before > BOUND // 4, within=20, what="what they sent to arrive")
        with socket.create_connection(("127.0.0.1", broker.port), 20) as beside:
            beside.sendall(handshake("PLAIN"))
            assert beside.recv(1000), "who asks for little is served beside them"
        assert most_memory(broker) - before < BOUND + 400 * 4096 + 16 * MIB
    until(lambda: memory(broker) - before < BOUND // 2, within=20, what="their memory to be given back")


def test_a_handshake_of_tls_takes_no_memory_for_what_it_only_announces(tmp_path: Path) -> None:
    """OpenSSL takes it at once, up to 128 KiB."""
    certs.make(tmp_path / "certs", ["localhost"])
    announced = 120_000
    hello = b"\x01" + announced.to_bytes(3, "big") + b"\x03\x03" + bytes(1000)
    with BrokerProcess(tmp_path / "broker", ["--tls", str(tmp_path / "certs")]) as broker:
        before = memory(broker)
        with contextlib.ExitStack() as ends:
            for _ in range(300):
                client = ends.enter_context(socket.create_connection(("127.0.0.1", broker.port), 20))
                client.sendall(b"\x16\x03\x01" + struct.pack(">H", len(hello)) + hello)
                with contextlib.suppress(ConnectionResetError):
                    assert client.recv(1000) == b""
            assert memory(broker) - before < 300 * 65_536
        assert f"the limit is {MAX_CLIENT_HELLO}" in broker.stderr


def test_what_a_client_calls_itself_is_kept_short(tmp_path: Path) -> None:
    """Names of 32 KB, for as long as the connection lasts, were 64 KB for each."""
    name = b"a" * 32_000
    length = bytes([(len(name) + 1) & 0x7F | 0x80, ((len(name) + 1) >> 7) & 0x7F | 0x80, (len(name) + 1) >> 14])
    asked = struct.pack(">hhihx", 18, 3, 7, -1) + (length + name) * 2 + b"\0"
    with BrokerProcess(tmp_path / "broker") as broker, contextlib.ExitStack() as ends:
        before = memory(broker)
        for _ in range(600):
            client = ends.enter_context(socket.create_connection(("127.0.0.1", broker.port), 20))
            client.sendall(framed(asked))
            assert client.recv(65_536)
        assert memory(broker) - before < 600 * 16_384
