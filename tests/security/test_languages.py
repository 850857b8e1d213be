"""Go, JavaScript and Java over every kind of listener and each mechanism: in with the right credentials, and with wrong
ones told so in the words that the client has for Kafka's refusal."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_protected import LISTENERS, MECHANISMS, WAYS, behind_everything
from tests.clients import build
from tests.security.drivers import DRIVERS, Driver, Refused
from tests.support.broker import BrokerProcess

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

NO_CERTIFICATE = {
    "franz-go": "certificate required",
    "sarama": "certificate required",
    "kafkajs": "certificate required",
    "java": "SslAuthenticationException",
}
STRANGE_CERTIFICATE = {
    "franz-go": "unknown certificate authority",
    "sarama": "unknown certificate authority",
    "kafkajs": "unknown ca",
    "java": "SslAuthenticationException",
}
WRONG_PASSWORD = {
    "franz-go": "SASL_AUTHENTICATION_FAILED",
    "sarama": "SASL Authentication failed",
    "kafkajs": "KafkaJSSASLAuthenticationError",
    "java": "SaslAuthenticationException: Authentication failed",
}
WRONG_TOKEN = {
    "franz-go": "unexpected data in oauth response",
    "sarama": "SASL Authentication failed",
    "kafkajs": "Request is not valid given the current SASL state",
    "java": 'SaslAuthenticationException: {"status":"invalid_token"}',
}
"""Two of them do not read what they are told about a token; with Apache Kafka they say the same."""
WRONG_MECHANISM = {
    "franz-go": "UNSUPPORTED_SASL_MECHANISM",
    "sarama": "run out of available brokers",
    "kafkajs": "The broker does not support the requested SASL mechanism",
    "java": "UnsupportedSaslMechanismException",
}
NOT_TRUSTED = {
    "franz-go": "certificate signed by unknown authority",
    "sarama": "certificate signed by unknown authority",
    "kafkajs": "self-signed certificate",
    "java": "SslAuthenticationException",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[BrokerProcess]:
    arguments = [*behind_everything(folder), "--listen", "FEW://127.0.0.1:0"]
    at = next(index for index, word in enumerate(arguments) if word.startswith("listener.security.protocol.map="))
    arguments[at] += ",FEW:SASL_PLAINTEXT"
    arguments += ["--set", "listener.name.few.sasl.enabled.mechanisms=SCRAM-SHA-256"]
    with BrokerProcess(tmp_path_factory.mktemp("broker"), arguments, listen="") as broker:
        yield broker


@pytest.fixture(scope="module", params=DRIVERS)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Driver]]:
    make, tools = DRIVERS[request.param]
    if missing := build.lacking(*tools):
        pytest.skip(f"{request.param} {missing}")
    driver = make(tmp_path_factory.mktemp(request.param))
    yield request.param, driver
    driver.close()


def token(*, expires_in: int = 3600) -> str:
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": "alice", "iat": now - 7200, "exp": now + expires_in})
    return ".".join(urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def way(broker: BrokerProcess, folder: Path, listener: str, how: str, **other: str) -> dict[str, str]:
    shown = folder / "client" if listener == "MUTUAL" else None
    made = {
        "bootstrap": broker.addresses[listener],
        "protocol": LISTENERS.get(listener, "SASL_PLAINTEXT"),
        "mechanism": how,
        "user": "alice",
        "password": "secret",
        "token": token(),
        "topic": "t",
        "ca": str(folder / "ca.pem"),
        "cert": f"{shown}-cert.pem" if shown else "",
        "key": f"{shown}-key.pem" if shown else "",
        "pem": f"{shown}.pem" if shown else "",
    }
    return made | other


def test_the_right_credentials_get_in_everywhere(
    broker: BrokerProcess, folder: Path, client: tuple[str, Driver]
) -> None:
    _, driver = client
    for listener, how in WAYS:
        assert driver.enter(way(broker, folder, listener, how)) == "hello", f"{listener} {how}"


def test_wrong_credentials_are_told_as_kafka_tells_them(
    broker: BrokerProcess, folder: Path, client: tuple[str, Driver]
) -> None:
    name, driver = client
    for listener in ("SASL_PLAINTEXT", "SASL_SSL"):
        for how in MECHANISMS:
            wrong = {"token": token(expires_in=-3600)} if how == "OAUTHBEARER" else {"password": "wrong"}
            expected = WRONG_TOKEN if how == "OAUTHBEARER" else WRONG_PASSWORD
            with pytest.raises(Refused) as refused:
                driver.enter(way(broker, folder, listener, how, **wrong))
            assert expected[name] in str(refused.value), f"{listener} {how}"


def test_a_user_that_does_not_exist_is_told_the_same_as_a_wrong_password(
    broker: BrokerProcess, folder: Path, client: tuple[str, Driver]
) -> None:
    name, driver = client
    for how in ("PLAIN", "SCRAM-SHA-512"):
        with pytest.raises(Refused) as nobody:
            driver.enter(way(broker, folder, "SASL_PLAINTEXT", how, user="nobody"))
        assert WRONG_PASSWORD[name] in str(nobody.value)


def test_a_mechanism_that_is_not_offered_is_told(
    broker: BrokerProcess, folder: Path, client: tuple[str, Driver]
) -> None:
    name, driver = client
    with pytest.raises(Refused) as refused:
        driver.enter(way(broker, folder, "FEW", "PLAIN"))
    assert WRONG_MECHANISM[name] in str(refused.value)


def test_a_certificate_that_is_missing_or_not_trusted_is_told(
    broker: BrokerProcess, folder: Path, client: tuple[str, Driver]
) -> None:
    name, driver = client
    with pytest.raises(Refused) as refused:
        driver.enter(way(broker, folder, "MUTUAL", "", cert="", key="", pem=""))
    assert NO_CERTIFICATE[name] in str(refused.value)
    strange = folder / "strange"
    files = {"cert": "client-cert.pem", "key": "client-key.pem", "pem": "client.pem"}
    with pytest.raises(Refused) as refused:
        driver.enter(way(broker, folder, "MUTUAL", "", **{key: str(strange / file) for key, file in files.items()}))
    assert STRANGE_CERTIFICATE[name] in str(refused.value)
    with pytest.raises(Refused) as refused:
        driver.enter(way(broker, folder, "SSL", "", ca=str(strange / "ca.pem")))
    assert NOT_TRUSTED[name] in str(refused.value)
