"""Real clients over every kind of listener and every mechanism, with the right password and a wrong one."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import aiokafka
import aiokafka.errors
import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.errors
import pytest

from tests.support.broker import BrokerProcess

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

LISTENERS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
WAYS = [(one, None) for one in LISTENERS[:2]] + [(one, how) for one in LISTENERS[2:] for how in MECHANISMS]
Settings = dict[str, str | int | float | bool]
"""Of librdkafka."""
WAYS_WITH_PASSWORD = [way for way in WAYS if way[1]]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[BrokerProcess]:
    arguments = [word for one in (*LISTENERS, "MUTUAL") for word in ("--listen", f"{one}://127.0.0.1:0")]
    arguments += ["--tls", str(folder), "--sasl-user", "alice:secret", "--topic", "t"]
    protocols = ",".join([*(f"{one}:{one}" for one in LISTENERS), "MUTUAL:SSL"])
    arguments += ["--set", f"listener.security.protocol.map={protocols}"]
    arguments += ["--set", "listener.name.mutual.ssl.client.auth=required"]
    arguments += ["--set", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"]
    arguments += ["--set", "super.users=User:alice;User:CN=alice", "--set", "allow.everyone.if.no.acl.found=true"]
    with BrokerProcess(tmp_path_factory.mktemp("broker"), arguments, listen="") as broker:
        yield broker


def librdkafka(broker: BrokerProcess, folder: Path, listener: str, how: str | None, password: str) -> Settings:
    made: Settings = {
        "bootstrap.servers": broker.addresses[listener],
        "security.protocol": "SSL" if listener == "MUTUAL" else listener,
        "ssl.ca.location": str(folder / "ca.pem"),
        "log_level": 0,
    }
    if how is not None:
        made |= {"sasl.mechanism": how, "sasl.username": "alice", "sasl.password": password}
    return made


@pytest.mark.parametrize(("listener", "how"), WAYS)
def test_librdkafka_writes_and_reads(broker: BrokerProcess, folder: Path, listener: str, how: str | None) -> None:
    common = librdkafka(broker, folder, listener, how, "secret")
    told: list[object] = []
    producer = confluent_kafka.Producer(common)
    producer.produce("t", b"hello", on_delivery=lambda error, message: told.append(error))
    assert producer.flush(15) == 0
    assert told == [None]
    consumer = confluent_kafka.Consumer({**common, "group.id": f"{listener}-{how}", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    try:
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        assert message.value() == b"hello"
    finally:
        consumer.close()


@pytest.mark.parametrize(("listener", "how"), WAYS_WITH_PASSWORD)
def test_librdkafka_is_told_that_a_password_is_wrong(
    broker: BrokerProcess, folder: Path, listener: str, how: str
) -> None:
    told: list[confluent_kafka.KafkaError] = []
    common = librdkafka(broker, folder, listener, how, "wrong")
    producer = confluent_kafka.Producer({**common, "error_cb": told.append})
    deadline = time.monotonic() + 15
    while not told and time.monotonic() < deadline:
        producer.poll(0.2)
    assert told[0].code() == confluent_kafka.KafkaError._AUTHENTICATION
    assert "uthentication failed" in told[0].str()


def test_librdkafka_shows_a_certificate(broker: BrokerProcess, folder: Path) -> None:
    common = librdkafka(broker, folder, "MUTUAL", None, "")
    pair = {
        "ssl.certificate.location": str(folder / "client-cert.pem"),
        "ssl.key.location": str(folder / "client-key.pem"),
    }
    admin = confluent_kafka.admin.AdminClient({**common, **pair})
    assert "t" in admin.list_topics(timeout=15).topics
    with pytest.raises(confluent_kafka.KafkaException):
        confluent_kafka.admin.AdminClient(common).list_topics(timeout=2)


def test_librdkafka_makes_tells_and_withdraws_acls(broker: BrokerProcess, folder: Path) -> None:
    admin = confluent_kafka.admin
    client = admin.AdminClient(librdkafka(broker, folder, "SASL_SSL", "SCRAM-SHA-512", "secret"))
    binding = admin.AclBinding(
        admin.ResourceType.TOPIC, "closed", admin.ResourcePatternType.LITERAL, "User:bob", "*",
        admin.AclOperation.READ, admin.AclPermissionType.ALLOW,
    )  # fmt: skip
    for future in client.create_acls([binding]).values():
        future.result(15)
    anybody = admin.AdminClient(librdkafka(broker, folder, "PLAINTEXT", None, ""))
    for future in client.create_topics([admin.NewTopic("closed", 1, 1)]).values():
        future.result(15)
    assert "closed" in client.list_topics(timeout=15).topics
    assert "closed" not in anybody.list_topics(timeout=15).topics
    error = anybody.list_topics("closed", timeout=15).topics["closed"].error
    assert error is not None
    assert error.code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
    everything = admin.AclBindingFilter(
        admin.ResourceType.TOPIC, "closed", admin.ResourcePatternType.MATCH, None, None,  # type: ignore[arg-type]  # None is for anybody
        admin.AclOperation.ANY, admin.AclPermissionType.ANY,
    )  # fmt: skip
    assert client.describe_acls(everything).result(15) == [binding]
    for future in client.delete_acls([everything]).values():
        assert future.result(15) == [binding]
    assert "closed" in anybody.list_topics(timeout=15).topics


def test_librdkafka_makes_a_user_who_can_log_in(broker: BrokerProcess, folder: Path) -> None:
    admin = confluent_kafka.admin
    client = admin.AdminClient(librdkafka(broker, folder, "SASL_SSL", "PLAIN", "secret"))
    made = admin.UserScramCredentialUpsertion(
        "carol", admin.ScramCredentialInfo(admin.ScramMechanism.SCRAM_SHA_256, 8192), b"pencil"
    )
    for future in client.alter_user_scram_credentials([made]).values():
        future.result(15)
    for how in ("SCRAM-SHA-256", "PLAIN"):
        carol = librdkafka(broker, folder, "SASL_PLAINTEXT", how, "pencil") | {"sasl.username": "carol"}
        assert confluent_kafka.admin.AdminClient(carol).list_topics(timeout=15).topics


def kafka_python(
    broker: BrokerProcess, folder: Path, listener: str, how: str | None, password: str
) -> dict[str, object]:
    made: dict[str, object] = {
        "bootstrap_servers": broker.addresses[listener],
        "security_protocol": listener,
        "ssl_cafile": str(folder / "ca.pem"),
    }
    if how is not None:
        made |= {"sasl_mechanism": how, "sasl_plain_username": "alice", "sasl_plain_password": password}
    return made


@pytest.mark.parametrize(("listener", "how"), WAYS)
def test_kafka_python_writes(broker: BrokerProcess, folder: Path, listener: str, how: str | None) -> None:
    producer = kafka.KafkaProducer(**kafka_python(broker, folder, listener, how, "secret"))
    try:
        assert producer.send("t", b"hello").get(timeout=20).offset >= 0
    finally:
        producer.close()


@pytest.mark.parametrize(("listener", "how"), WAYS_WITH_PASSWORD)
def test_kafka_python_is_told_that_a_password_is_wrong(
    broker: BrokerProcess, folder: Path, listener: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = kafka_python(broker, folder, listener, how, "wrong") | {"bootstrap_timeout_ms": 1000}
    with pytest.raises(kafka.errors.KafkaError):
        kafka.KafkaConsumer("t", **settings)
    assert "uthentication failed" in caplog.text


def aio(
    broker: BrokerProcess, folder: Path, listener: str, how: str | None, password: str
) -> aiokafka.AIOKafkaProducer:
    made: dict[str, object] = {"bootstrap_servers": broker.addresses[listener], "security_protocol": listener}
    if listener.endswith("SSL"):
        made["ssl_context"] = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    if how is not None:
        made |= {"sasl_mechanism": how, "sasl_plain_username": "alice", "sasl_plain_password": password}
    return aiokafka.AIOKafkaProducer(**made)


@pytest.mark.parametrize(("listener", "how"), WAYS)
async def test_aiokafka_writes(broker: BrokerProcess, folder: Path, listener: str, how: str | None) -> None:
    producer = aio(broker, folder, listener, how, "secret")
    await producer.start()
    try:
        sent = await asyncio.wait_for(producer.send_and_wait("t", b"hello"), 20)
        assert sent.offset >= 0
    finally:
        await producer.stop()


@pytest.mark.parametrize(("listener", "how"), WAYS_WITH_PASSWORD)
async def test_aiokafka_is_told_that_a_password_is_wrong(
    broker: BrokerProcess, folder: Path, listener: str, how: str
) -> None:
    producer = aio(broker, folder, listener, how, "wrong")
    with pytest.raises((aiokafka.errors.SaslAuthenticationFailed, aiokafka.errors.KafkaConnectionError)):
        await producer.start()
    await producer.stop()


def test_librdkafka_shows_tokens_and_renews_them(tmp_path: Path) -> None:
    """Nobody signs them, so they are good for tests alone; each log-in is good for two seconds and renewed in time."""
    arguments = ["--listen", "SASL_PLAINTEXT://127.0.0.1:0", "--topic", "t"]
    for setting in (
        "sasl.enabled.mechanisms=OAUTHBEARER",
        "broker.lite.sasl.oauthbearer.unsecured=true",
        "connections.max.reauth.ms=2000",
    ):
        arguments += ["--set", setting]
    with BrokerProcess(tmp_path, arguments, listen="") as broker:
        settings: dict[str, object] = {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": "principal=alice",
        }
        producer = confluent_kafka.Producer(settings)
        told: list[object] = []
        until = time.monotonic() + 5
        while time.monotonic() < until:
            producer.produce("t", b"hello", on_delivery=lambda error, message: told.append(error))
            assert producer.flush(15) == 0
            time.sleep(0.1)
        assert set(told) == {None}
        assert "expired" not in broker.stderr
