"""Python's clients with a token or a certificate instead of a password: good ones, and those that are not taken."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import aiokafka
import aiokafka.abc
import aiokafka.errors
import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.errors
import pytest
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.cli.test_protected import behind_everything
from tests.security.test_languages import token
from tests.support.broker import BrokerProcess

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

WITH_TOKENS = pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), behind_everything(folder), listen="") as broker:
        yield broker


class Tokens(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
    """For aiokafka; kafka-python asks the same without waiting."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def token(self) -> str:
        return self._text


class TokensAtOnce(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, text: str) -> None:
        self._text = text

    def token(self) -> str:
        return self._text


def trusting(folder: Path, *, shows: Path | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    if shows is not None:
        made.load_cert_chain(shows)
    return made


def librdkafka(broker: BrokerProcess, folder: Path, listener: str, text: str) -> dict[str, object]:
    return {
        "bootstrap.servers": broker.addresses[listener],
        "security.protocol": listener,
        "ssl.ca.location": str(folder / "ca.pem"),
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (text, time.time() + 3600),
        "log_level": 0,
    }


@WITH_TOKENS
def test_librdkafka_with_a_token(broker: BrokerProcess, folder: Path, listener: str) -> None:
    told: list[object] = []
    producer = confluent_kafka.Producer(librdkafka(broker, folder, listener, token()))
    producer.produce("t", b"hello", on_delivery=lambda error, message: told.append(error))
    assert producer.flush(15) == 0
    assert told == [None]


@WITH_TOKENS
def test_librdkafka_with_a_token_that_has_expired(broker: BrokerProcess, folder: Path, listener: str) -> None:
    told: list[confluent_kafka.KafkaError] = []
    common = librdkafka(broker, folder, listener, token(expires_in=-3600)) | {"error_cb": told.append}
    producer = confluent_kafka.Producer(common)
    deadline = time.monotonic() + 15
    while not told and time.monotonic() < deadline:
        producer.poll(0.2)
    assert told[0].code() == confluent_kafka.KafkaError._AUTHENTICATION


@pytest.mark.parametrize("shows", ["", "strange/"])
def test_librdkafka_is_told_that_its_certificate_will_not_do(broker: BrokerProcess, folder: Path, shows: str) -> None:
    told: list[confluent_kafka.KafkaError] = []
    common: dict[str, object] = {
        "bootstrap.servers": broker.addresses["MUTUAL"],
        "security.protocol": "SSL",
        "ssl.ca.location": str(folder / "ca.pem"),
        "error_cb": told.append,
        "log_level": 0,
    }
    if shows:
        common |= {
            "ssl.certificate.location": str(folder / shows / "client-cert.pem"),
            "ssl.key.location": str(folder / shows / "client-key.pem"),
        }
    producer = confluent_kafka.Producer(common)
    deadline = time.monotonic() + 15
    while not told and time.monotonic() < deadline:
        producer.poll(0.2)
    assert "alert" in told[0].str()


def aio(broker: BrokerProcess, folder: Path, listener: str, text: str) -> aiokafka.AIOKafkaProducer:
    return aiokafka.AIOKafkaProducer(
        bootstrap_servers=broker.addresses[listener],
        security_protocol=listener,
        ssl_context=trusting(folder) if listener.endswith("SSL") else None,
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Tokens(text),
    )


async def wrote(producer: aiokafka.AIOKafkaProducer, within: float = 20) -> bool:
    try:
        await producer.start()
        told = await asyncio.wait_for(producer.send_and_wait("t", b"hello"), within)
        return int(told.offset) >= 0
    finally:
        await producer.stop()


@WITH_TOKENS
async def test_aiokafka_with_a_token(broker: BrokerProcess, folder: Path, listener: str) -> None:
    assert await wrote(aio(broker, folder, listener, token()))


@WITH_TOKENS
async def test_aiokafka_with_a_token_that_has_expired(broker: BrokerProcess, folder: Path, listener: str) -> None:
    """It does not read what it is told about a token, asks on and waits for brokers; before Apache Kafka too."""
    with pytest.raises(TimeoutError):
        await wrote(aio(broker, folder, listener, token(expires_in=-3600)), within=3)


async def test_aiokafka_with_a_certificate_and_without(broker: BrokerProcess, folder: Path) -> None:
    def showing(shows: Path | None) -> aiokafka.AIOKafkaProducer:
        return aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.addresses["MUTUAL"],
            security_protocol="SSL",
            ssl_context=trusting(folder, shows=shows),
        )

    assert await wrote(showing(folder / "client.pem"))
    for shows in (None, folder / "strange" / "client.pem"):
        with pytest.raises(aiokafka.errors.KafkaConnectionError):
            await wrote(showing(shows))


def kafka_python(broker: BrokerProcess, folder: Path, listener: str, **more: object) -> dict[str, object]:
    made: dict[str, object] = {
        "bootstrap_servers": broker.addresses[listener],
        "security_protocol": "SSL" if listener == "MUTUAL" else listener,
        "ssl_cafile": str(folder / "ca.pem"),
        "bootstrap_timeout_ms": 3000,
    }
    return made | more


@WITH_TOKENS
def test_kafka_python_with_a_token(broker: BrokerProcess, folder: Path, listener: str) -> None:
    shown = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": TokensAtOnce(token())}
    producer = kafka.KafkaProducer(**kafka_python(broker, folder, listener, **shown))
    assert producer.send("t", b"hello").get(timeout=20).offset >= 0
    producer.close()


@WITH_TOKENS
def test_kafka_python_with_a_token_that_has_expired(
    broker: BrokerProcess, folder: Path, listener: str, caplog: pytest.LogCaptureFixture
) -> None:
    shown = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": TokensAtOnce(token(expires_in=-3600))}
    with pytest.raises(kafka.errors.KafkaError):
        kafka.KafkaConsumer("t", **kafka_python(broker, folder, listener, bootstrap_timeout_ms=1000, **shown))
    assert "uthentication failed" in caplog.text or "invalid_token" in caplog.text


def test_kafka_python_with_a_certificate_and_without(broker: BrokerProcess, folder: Path) -> None:
    def files(where: Path) -> dict[str, object]:
        return {"ssl_certfile": str(where / "client-cert.pem"), "ssl_keyfile": str(where / "client-key.pem")}

    producer = kafka.KafkaProducer(**kafka_python(broker, folder, "MUTUAL", **files(folder)))
    assert producer.send("t", b"hello").get(timeout=20).offset >= 0
    producer.close()
    for shown in ({}, files(folder / "strange")):
        with pytest.raises(kafka.errors.KafkaError):
            kafka.KafkaConsumer("t", **kafka_python(broker, folder, "MUTUAL", bootstrap_timeout_ms=1000, **shown))
