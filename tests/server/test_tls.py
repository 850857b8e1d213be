"""TLS over real sockets under both loops: certificates of all kinds, clients of all kinds, and what each is told."""

from __future__ import annotations

import contextlib
import gc
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import structlog
from cryptography.hazmat.primitives import serialization

from broker_lite.apis.registry import Answer, ConnectionFacts
from broker_lite.cli import certs
from broker_lite.config.sources import Settings, Source
from broker_lite.errors import StartRefused
from broker_lite.server import jks, listener
from broker_lite.server.listener import ListenerAddress
from broker_lite.server.tls import Tls
from tests.server import stores
from tests.server.conftest import PATIENCE, Client, Server, framed
from tests.server.test_connection import _connections
from tests.support.waiting import until

Run = Callable[..., Server]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certs")
    certs.make(made, ["localhost", "127.0.0.1"], client="alice")
    return made


def tls(folder: Path, **keys: str) -> Tls:
    given = {"ssl.keystore.location": str(folder / "server.pem"), "ssl.truststore.location": str(folder / "ca.pem")}
    given |= {name.replace("_", "."): text for name, text in keys.items()}
    return Tls(Settings({Source.FLAG: given}), "SSL")


def whoami(connection: ConnectionFacts, frame: memoryview) -> Answer | Awaitable[Answer]:
    return [framed(connection.principal.encode() + b" " + bytes(frame))]


def listening(run: Run, protection: Tls) -> Server:
    return run(whoami, listeners=[ListenerAddress("SSL", "127.0.0.1", 0, tls=protection)])


def shaken(server: Server, folder: Path, *, certificate: str | None = None, newest: bool = True) -> Client:
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    if certificate is not None:
        context.load_cert_chain(folder / certificate)
    if not newest:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    return wrapped(server.client(), context)


def wrapped(client: Client, context: ssl.SSLContext) -> Client:
    client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
    return client


def told(client: Client, payload: bytes = b"hello") -> bytes:
    client.ask(payload)
    return client.hear()


@pytest.mark.parametrize("newest", [True, False], ids=["TLSv1.3", "TLSv1.2"])
def test_a_client_talks_over_tls(run: Run, folder: Path, newest: bool) -> None:
    client = shaken(listening(run, tls(folder)), folder, newest=newest)
    assert told(client) == b"User:ANONYMOUS hello"
    assert client.socket.version() == ("TLSv1.3" if newest else "TLSv1.2")  # type: ignore[attr-defined]


def test_who_is_gone_is_forgotten_without_the_collector(run: Run, folder: Path) -> None:
    server = listening(run, tls(folder))
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            client = shaken(server, folder)
            assert told(client) == b"User:ANONYMOUS hello"
            client.close()
        until(lambda: not _connections(), within=PATIENCE, what="nobody left")
    finally:
        gc.enable()


def test_handshakes_that_fail_are_forgotten_without_the_collector(run: Run, folder: Path) -> None:
    server = listening(run, tls(folder))
    with contextlib.suppress(OSError):
        wrapped(server.client(), ssl.create_default_context())  # whatever is imported and cached, is now
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            client = server.client()
            client.send(b"\x16\x03\x01\x02\x00\x01\x00")
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            with pytest.raises(OSError, match="certificate verify failed"):
                wrapped(server.client(), ssl.create_default_context())
        until(lambda: not _connections(), within=PATIENCE, what="nobody left")
    finally:
        gc.enable()


def test_large_requests_and_answers_pass(run: Run, folder: Path) -> None:
    client = shaken(listening(run, tls(folder)), folder)
    for size in (100_000, 1_000_000, 5_000_000):
        payload = bytes(range(256)) * (size // 256)
        client.ask(payload, payload)
        assert client.hear() == client.hear() == b"User:ANONYMOUS " + payload


@pytest.mark.parametrize("demand", ["requested", "required"])
def test_a_clients_certificate_says_who_it_is(run: Run, folder: Path, demand: str) -> None:
    server = listening(run, tls(folder, ssl_client_auth=demand))
    assert told(shaken(server, folder, certificate="client.pem")) == b"User:CN=alice hello"


def test_rules_shorten_the_name_in_a_certificate(run: Run, folder: Path) -> None:
    rules = {"ssl_client_auth": "required", "ssl_principal_mapping_rules": "RULE:^CN=(.*?)$/$1/U,DEFAULT"}
    assert told(shaken(listening(run, tls(folder, **rules)), folder, certificate="client.pem")) == b"User:ALICE hello"


def test_a_certificate_is_asked_for_and_may_be_missing(run: Run, folder: Path) -> None:
    assert told(shaken(listening(run, tls(folder, ssl_client_auth="requested")), folder)) == b"User:ANONYMOUS hello"


def test_a_certificate_that_is_required_may_not_be_missing_or_strange(run: Run, folder: Path, tmp_path: Path) -> None:
    server = listening(run, tls(folder, ssl_client_auth="required"))
    certs.make(tmp_path, ["localhost"])
    strange = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    strange.load_cert_chain(tmp_path / "client.pem")
    with pytest.raises((ssl.SSLError, EOFError, ConnectionResetError)):
        told(shaken(server, folder))
    with pytest.raises((ssl.SSLError, EOFError, ConnectionResetError)):
        told(wrapped(server.client(), strange))


def test_stores_that_java_made_do_as_well(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "key.jks").write_bytes(stores.KEY_STORE)
    (tmp_path / "trust.jks").write_bytes(stores.TRUST_STORE)
    protection = tls(
        folder,
        ssl_keystore_location=str(tmp_path / "key.jks"),
        ssl_keystore_password=stores.STORE_PASSWORD,
        ssl_key_password=stores.KEY_PASSWORD,
        ssl_truststore_location=str(tmp_path / "trust.jks"),
        ssl_client_auth="required",
    )
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    key.write_bytes(jks.own(stores.KEY_STORE, None, stores.KEY_PASSWORD))
    certificate.write_bytes(jks.trusted(stores.TRUST_STORE, None))
    context = ssl.create_default_context(cafile=str(certificate))
    context.load_cert_chain(key)
    assert told(wrapped(listening(run, protection).client(), context)) == b"User:CN=localhost hello"


def test_pkcs12_files_do_as_well(run: Run, folder: Path) -> None:
    protection = tls(
        folder,
        ssl_keystore_location=str(folder / "server.p12"),
        ssl_keystore_password=certs.PASSWORD,
        ssl_truststore_location=str(folder / "truststore.p12"),
        ssl_truststore_password=certs.PASSWORD,
        ssl_client_auth="required",
    )
    assert told(shaken(listening(run, protection), folder, certificate="client.pem")) == b"User:CN=alice hello"


def test_certificates_in_the_settings_do_as_well(run: Run, folder: Path) -> None:
    given = {
        "ssl.keystore.key": (folder / "server-key.pem").read_text(),
        "ssl.keystore.certificate.chain": (folder / "server-cert.pem").read_text(),
    }
    assert told(shaken(listening(run, Tls(Settings({Source.FLAG: given}), "SSL")), folder)) == b"User:ANONYMOUS hello"


@pytest.mark.parametrize(
    ("said", "why"),
    [(b"GET / HTTP/1.1\r\n\r\n", "HTTP client"), (framed(b"\x00\x12\x00\x03" + bytes(20)), "without TLS")],
)
def test_a_client_without_tls_is_refused_and_named(run: Run, folder: Path, said: bytes, why: str) -> None:
    with structlog.testing.capture_logs() as lines:
        server = listening(run, tls(folder))
        client = server.client()
        client.send(said)
        with contextlib.suppress(ConnectionResetError):
            while client.socket.recv(100):
                pass
        server.turn()
    assert [line for line in lines if line["event"] == "connection.refused" and why in line["reason"]], lines


def test_a_hello_in_many_pieces_is_heard_and_an_endless_one_is_not(run: Run, folder: Path) -> None:
    server = listening(run, tls(folder))
    client, sent = server.client(), b""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    shaking = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        shaking.do_handshake()
    sent = outgoing.read()
    for at in range(12):
        client.send(sent[at : at + 1])
        server.turn()
    client.send(sent[12:])
    incoming.write(client.socket.recv(65_536))
    with contextlib.suppress(ssl.SSLWantReadError):
        shaking.do_handshake()
    assert shaking.version() == "TLSv1.3", "it was answered"
    with structlog.testing.capture_logs() as lines:
        endless = server.client()
        endless.send(b"\x16\x03\x01\x40\x00\x01" + (16_385).to_bytes(3, "big"))
        assert endless.is_hung_up_on()
        server.turn()
    assert ["a ClientHello of 16385 bytes" in line["reason"] for line in lines] == [True]
    assert told(shaken(server, folder)) == b"User:ANONYMOUS hello"


def test_a_client_that_stalls_its_handshake_holds_up_nobody_and_is_cut_off(run: Run, folder: Path) -> None:
    keys = {"ssl.keystore.location": str(folder / "server.pem"), "broker.lite.tls.handshake.timeout.ms": "300"}
    server = listening(run, Tls(Settings({Source.FLAG: keys}), "SSL"))
    stalled = [server.client() for _ in range(20)]
    assert told(shaken(server, folder)) == b"User:ANONYMOUS hello"
    assert all(client.is_hung_up_on() for client in stalled)


def test_who_only_begins_handshakes_pushes_out_himself(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HANDSHAKES", 5)
    server = listening(run, tls(folder))
    with structlog.testing.capture_logs() as logged:
        stalled = []
        for _ in range(8):
            stalled.append(server.client())
            server.turn()
        assert [client.is_hung_up_on() for client in stalled[:3]] == [True] * 3
        assert told(shaken(server, folder)) == b"User:ANONYMOUS hello"
        assert stalled[3].is_hung_up_on(), "the one who came in took the place of the oldest"
        assert told(shaken(server, folder)) == b"User:ANONYMOUS hello"
        assert told(wrapped(stalled[-1], ssl.create_default_context(cafile=str(folder / "ca.pem")))) != b""
    assert {line["reason"] for line in logged if line["event"] == "connection.refused"} == {
        "more than 5 TLS handshakes at once, and this was the oldest"
    }


def test_new_certificates_are_for_new_connections(run: Run, folder: Path, tmp_path: Path) -> None:
    certs.make(tmp_path, ["localhost"])
    protection = tls(tmp_path)
    server = listening(run, protection)
    old = shaken(server, tmp_path)
    certs.make(tmp_path, ["localhost"])
    with pytest.raises(ssl.SSLError):
        shaken(server, tmp_path)
    server.portal.call(protection.reload)
    assert told(shaken(server, tmp_path)) == b"User:ANONYMOUS hello"
    assert told(old) == b"User:ANONYMOUS hello"
    (tmp_path / "server.pem").write_text("nonsense")
    server.portal.call(protection.reload)
    assert told(shaken(server, tmp_path)) == b"User:ANONYMOUS hello"


def test_a_client_that_hangs_up_in_the_middle_leaves_nothing(run: Run, folder: Path) -> None:
    server = listening(run, tls(folder))
    for _ in range(3):
        client = shaken(server, folder)
        client.send(b"\0\0\0\x10half")
        client.close()
    assert told(shaken(server, folder)) == b"User:ANONYMOUS hello"


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"ssl_keystore_location": "/nowhere"}, "No such file"),
        ({"ssl_keystore_location": "{ca}"}, "ca.pem holds no private key"),
        ({"ssl_keystore_location": "{trust}", "ssl_keystore_password": certs.PASSWORD}, "p12 holds no private key"),
        ({"ssl_keystore_location": "{locked}", "ssl_key_password": "wrong"}, "ssl.key.password is another"),
        ({"ssl_keystore_location": "{mixed}"}, "do not fit: KEY_VALUES_MISMATCH"),
        ({"ssl_keystore_location": "{p12}", "ssl_keystore_password": "wrong"}, "password is another"),
        ({"ssl_keystore_location": "{jceks}"}, "keytool -importkeystore"),
        ({"ssl_keystore_location": "{jks}", "ssl_keystore_password": "wrong"}, "its password is another"),
        ({"ssl_keystore_location": "{jks}", "ssl_keystore_password": stores.STORE_PASSWORD}, "set ssl.key.password"),
        ({"ssl_keystore_location": "{junk}"}, "not a PKCS#12 file"),
        ({"ssl_principal_mapping_rules": "RULE:(/x/"}, "pattern"),
        ({"ssl_principal_mapping_rules": "RULE:a/$1/"}, "group"),
        ({"ssl_principal_mapping_rules": "NONSENSE"}, "neither DEFAULT"),
    ],
)
def test_certificates_that_cannot_be_used_stop_the_start(
    folder: Path, tmp_path: Path, keys: dict[str, str], why: str
) -> None:
    (tmp_path / "x.jks").write_bytes(stores.KEY_STORE)
    (tmp_path / "x.jceks").write_bytes(b"\xce\xce\xce\xce" + bytes(20))
    (tmp_path / "junk").write_bytes(b"\x30\x82 nothing")
    key = serialization.load_pem_private_key((folder / "server-key.pem").read_bytes(), None)
    lock = serialization.BestAvailableEncryption(b"right")
    locked = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)
    (tmp_path / "locked").write_bytes(locked + (folder / "server-cert.pem").read_bytes())
    (tmp_path / "mixed").write_bytes(
        (folder / "client-key.pem").read_bytes() + (folder / "server-cert.pem").read_bytes()
    )
    places = {
        "trust": folder / "truststore.p12",
        "locked": tmp_path / "locked",
        "mixed": tmp_path / "mixed",
        "ca": folder / "ca.pem",
        "p12": folder / "server.p12",
        "jks": tmp_path / "x.jks",
        "jceks": tmp_path / "x.jceks",
        "junk": tmp_path / "junk",
    }
    with pytest.raises(StartRefused, match=why):
        tls(folder, **{name: text.format(**places) if "{" in text else text for name, text in keys.items()})


def test_a_listener_with_tls_needs_a_certificate_and_somebody_to_trust(folder: Path) -> None:
    with pytest.raises(StartRefused, match="broker-lite certs"):
        Tls(Settings(), "SSL")
    keys = {"ssl.keystore.location": str(folder / "server.pem"), "ssl.client.auth": "required"}
    with pytest.raises(StartRefused, match="whom to trust"):
        Tls(Settings({Source.FLAG: keys}), "SSL")


def test_keys_are_readable_by_their_owner_alone(folder: Path) -> None:
    for name in ("server.pem", "server-key.pem", "server.p12", "client.pem", "client-key.pem", "client.p12"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
    assert not list(folder.glob("ca*key*"))


def test_stopping_waits_for_no_handshake(run: Run, folder: Path) -> None:
    server = listening(run, tls(folder))
    stalled = [server.client() for _ in range(20)]
    assert told(shaken(server, folder)) == b"User:ANONYMOUS hello"
    server.begin_stop()
    assert server.stopped.wait(5)
    assert all(client.is_hung_up_on() for client in stalled)


@pytest.mark.parametrize("newest", [True, False], ids=["TLSv1.3", "TLSv1.2"])
def test_a_client_without_a_certificate_is_told_that_one_is_wanted(run: Run, folder: Path, newest: bool) -> None:
    server = listening(run, tls(folder, ssl_client_auth="required"))
    with pytest.raises(ssl.SSLError, match="ALERT_CERTIFICATE_REQUIRED" if newest else "ALERT_HANDSHAKE_FAILURE"):
        told(shaken(server, folder, newest=newest))


@pytest.mark.parametrize("newest", [True, False], ids=["TLSv1.3", "TLSv1.2"])
def test_a_client_with_a_strangers_certificate_is_told_so(run: Run, folder: Path, tmp_path: Path, newest: bool) -> None:
    certs.make(tmp_path, ["localhost"], client="alice")
    server = listening(run, tls(folder, ssl_client_auth="required"))
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.load_cert_chain(tmp_path / "client.pem")
    if not newest:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match="ALERT"):
        told(wrapped(server.client(), context))


def test_a_client_of_an_old_tls_is_told_so(run: Run, folder: Path) -> None:
    server = listening(run, tls(folder, ssl_enabled_protocols="TLSv1.3"))
    with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
        shaken(server, folder, newest=False)
