"""Python clients before a mechanism that is not offered and a broker that they do not trust: each says what is so."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors
import pytest

from tests.cli.test_protected import behind_everything
from tests.support.broker import BrokerProcess

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[BrokerProcess]:
    arguments = [
        *behind_everything(folder),
        "--set",
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms=SCRAM-SHA-256",
    ]
    with BrokerProcess(tmp_path_factory.mktemp("broker"), arguments, listen="") as broker:
        yield broker


def heard_by_librdkafka(settings: dict[str, str]) -> confluent_kafka.KafkaError:
    told: list[confluent_kafka.KafkaError] = []
    producer = confluent_kafka.Producer({**settings, "log_level": 0, "error_cb": told.append})
    deadline = time.monotonic() + 15
    while not told and time.monotonic() < deadline:
        producer.poll(0.2)
    return told[0]


def test_librdkafka_is_told_which_mechanisms_there_are(broker: BrokerProcess) -> None:
    told = heard_by_librdkafka(
        {
            "bootstrap.servers": broker.addresses["SASL_PLAINTEXT"],
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "secret",
        }
    )
    assert told.code() == confluent_kafka.KafkaError._AUTHENTICATION
    assert "Unsupported SASL mechanism" in told.str()
    assert "SCRAM-SHA-256" in told.str()


def test_librdkafka_does_not_trust_a_strangers_certificate(broker: BrokerProcess, folder: Path) -> None:
    told = heard_by_librdkafka(
        {
            "bootstrap.servers": broker.addresses["SSL"],
            "security.protocol": "SSL",
            "ssl.ca.location": str(folder / "strange" / "ca.pem"),
        }
    )
    assert told.code() == confluent_kafka.KafkaError._SSL
    assert "certificate" in told.str()


def test_kafka_python_is_told_which_mechanisms_there_are(
    broker: BrokerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(kafka.errors.KafkaError):
        kafka.KafkaConsumer(
            "t",
            bootstrap_servers=broker.addresses["SASL_PLAINTEXT"],
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username="alice",
            sasl_plain_password="secret",
            bootstrap_timeout_ms=1000,
        )
    assert "UnsupportedSaslMechanism" in caplog.text


def test_kafka_python_does_not_trust_a_strangers_certificate(
    broker: BrokerProcess, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(kafka.errors.KafkaError):
        kafka.KafkaConsumer(
            "t",
            bootstrap_servers=broker.addresses["SSL"],
            security_protocol="SSL",
            ssl_cafile=str(folder / "strange" / "ca.pem"),
            bootstrap_timeout_ms=1000,
        )
    assert "certificate verify failed" in caplog.text


async def test_aiokafka_is_told_which_mechanisms_there_are(
    broker: BrokerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=broker.addresses["SASL_PLAINTEXT"],
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="alice",
        sasl_plain_password="secret",
    )
    with pytest.raises(
        (aiokafka.errors.UnsupportedSaslMechanismError, aiokafka.errors.KafkaConnectionError)
    ) as refused:
        await producer.start()
    await producer.stop()
    assert "UnsupportedSaslMechanism" in caplog.text + repr(refused.value)


async def test_aiokafka_does_not_trust_a_strangers_certificate(
    broker: BrokerProcess, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=broker.addresses["SSL"],
        security_protocol="SSL",
        ssl_context=ssl.create_default_context(cafile=str(folder / "strange" / "ca.pem")),
    )
    with pytest.raises(aiokafka.errors.KafkaConnectionError):
        await producer.start()
    await producer.stop()
    assert "certificate verify failed" in caplog.text
