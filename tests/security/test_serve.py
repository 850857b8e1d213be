"""The command line of a protected broker: flags, warnings, refusals, and what is never said."""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import confluent_kafka.admin
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from bench.raw import Connection, frame, string
from broker_lite.cli import certs
from tests.security.test_permissions import AUTHORIZER
from tests.support.broker import BrokerFailed, BrokerProcess
from tests.support.waiting import until

Start = Callable[..., BrokerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return lambda *arguments, listen="127.0.0.1:0": BrokerProcess(tmp_path / "broker", arguments, listen=listen)


def test_a_password_makes_the_listener_ask_for_it(start: Start) -> None:
    with start("--sasl-user", "alice:s:e:c:r:e:t") as broker:
        assert list(broker.addresses) == ["SASL_PLAINTEXT"]
        settings: dict[str, str | int | float | bool] = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
        settings |= {"security.protocol": "SASL_PLAINTEXT"}
        settings |= {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "alice", "sasl.password": "s:e:c:r:e:t"}
        assert confluent_kafka.admin.AdminClient(settings).list_topics(timeout=15).brokers
        broker.stop()
        assert "s:e:c:r:e:t" not in broker.stdout + broker.stderr


def test_certificates_and_a_password_make_it_sasl_ssl(start: Start, tmp_path: Path) -> None:
    certs.make(tmp_path / "certs", ["localhost"])
    with start("--tls", str(tmp_path / "certs"), "--sasl-user", "alice:secret") as broker:
        assert list(broker.addresses) == ["SASL_SSL"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--sasl-user", "alice"], "NAME:PASSWORD"),
        (["--tls", "/nowhere"], "No such file"),
        (["--set", "super.users=alice"], "User:alice"),
        (["--set", "authorizer.class.name=com.example.Mine"], "must be one of"),
        (["--sasl-user", "a:b", "--set", "sasl.enabled.mechanisms=OAUTHBEARER"], "one of the two"),
        (["--sasl-user", "a:b", "--set", "sasl.enabled.mechanisms=GSSAPI"], "must be one of"),
    ],
)
def test_a_start_that_cannot_be_meant_is_refused(start: Start, arguments: list[str], why: str) -> None:
    with pytest.raises(BrokerFailed, match=why):
        start(*arguments).start()


def test_an_open_listener_on_the_network_is_warned_of(start: Start, tmp_path: Path) -> None:
    with start(listen="0.0.0.0:0") as broker:
        assert "listener.open" in broker.stderr
        assert "--sasl-user NAME:PASSWORD" in broker.stderr
    for more in (["--set", "broker.lite.open.to.network=true"], ["--sasl-user", "a:b"]):
        quiet = BrokerProcess(tmp_path / more[1], more, listen="0.0.0.0:0")
        with quiet:
            assert "listener.open" not in quiet.stderr
    with BrokerProcess(tmp_path / "local") as local:
        assert "listener.open" not in local.stderr


@pytest.mark.parametrize("more", [[], ["--set", "broker.lite.open.to.network=true"], ["--set", "ssl.client.auth=none"]])
def test_a_strict_start_refuses_an_open_listener_on_the_network(start: Start, more: list[str]) -> None:
    with pytest.raises(BrokerFailed, match=r"--strict: anybody who reaches PLAINTEXT://0\.0\.0\.0:0 may read, write"):
        start("--strict", *more, listen="0.0.0.0:0").start()


@pytest.mark.parametrize(
    ("more", "listen"),
    [
        ([], "127.0.0.1:0"),
        (["--sasl-user", "a:b"], "0.0.0.0:0"),
        (["--set", f"authorizer.class.name={AUTHORIZER}"], "0.0.0.0:0"),
    ],
)
def test_a_strict_start_is_content_with_one_that_is_not_open(start: Start, more: list[str], listen: str) -> None:
    with start("--strict", *more, listen=listen) as broker:
        assert "listener.open" not in broker.stderr


def test_certificates_are_read_again_on_a_signal(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    certs.make(folder, ["localhost"])

    def trusts() -> bool:
        context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        with socket.create_connection(("127.0.0.1", broker.port), 10) as plain:
            try:
                context.wrap_socket(plain, server_hostname="localhost").close()
            except ssl.SSLError:
                return False
        return True

    with start("--tls", str(folder)) as broker:
        assert trusts()
        certs.make(folder, ["localhost"])
        assert not trusts()
        assert broker.process is not None
        broker.process.send_signal(signal.SIGHUP)
        until(trusts, within=10, what="new certificates")


def test_the_keys_of_tokens_are_read_again_on_a_signal(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"

    def new_key() -> rsa.RSAPrivateKey:
        key = rsa.generate_private_key(65537, 2048)
        file.write_text(f'{{"keys": [{jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())}]}}')
        return key

    def lets_in(key: rsa.RSAPrivateKey) -> bool:
        token = jwt.encode({"sub": "alice", "iat": time.time(), "exp": time.time() + 60}, key, algorithm="RS256")
        said = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
        with Connection(broker.bootstrap) as client:
            client.ask(frame(17, 1, string("OAUTHBEARER")))
            return b"invalid_token" not in client.ask(frame(36, 1, len(said).to_bytes(4, "big") + said))

    old = new_key()
    settings = ("sasl.enabled.mechanisms=OAUTHBEARER", f"sasl.oauthbearer.jwks.endpoint.url=file://{file}")
    with start("--set", settings[0], "--set", settings[1], listen="SASL_PLAINTEXT://127.0.0.1:0") as broker:
        assert lets_in(old)
        new = new_key()
        assert not lets_in(new)
        assert broker.process is not None
        broker.process.send_signal(signal.SIGHUP)
        until(lambda: lets_in(new), within=10, what="the new key")
        assert not lets_in(old), "who had the old key has nothing any more"
        file.write_text("damaged")
        broker.process.send_signal(signal.SIGHUP)
        until(lambda: "tokens.not_reloaded" in broker.stderr, within=10, what="a complaint")
        assert lets_in(new)


def test_secrets_are_not_described(start: Start) -> None:
    with start(
        "--sasl-user", "alice:hush-hush", "--listen", "PLAINTEXT://127.0.0.1:0", listen="SASL_PLAINTEXT://127.0.0.1:0"
    ) as broker:
        admin = confluent_kafka.admin
        client = admin.AdminClient({"bootstrap.servers": broker.addresses["PLAINTEXT"]})
        resource = admin.ConfigResource(admin.ResourceType.BROKER, "1")
        described = next(iter(client.describe_configs([resource]).values())).result(15)
        assert described["broker.lite.sasl.users"].is_sensitive
        assert "hush" not in str({name: entry.value for name, entry in described.items()})


def test_certs_tells_what_to_do_next(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "broker_lite",
        "certs",
        str(tmp_path / "c"),
        "--host",
        "broker.test",
        "--client",
        "bob",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"broker-lite serve --tls {tmp_path / 'c'}" in done.stdout
    found = ssl._ssl._test_decode_cert(str(tmp_path / "c" / "server-cert.pem"))  # type: ignore[attr-defined]
    assert found["subjectAltName"] == (("DNS", "broker.test"),)


def test_the_data_folder_is_its_owners_alone(start: Start) -> None:
    with start("--topic", "t") as broker:
        assert broker.data.stat().st_mode & 0o077 == 0
