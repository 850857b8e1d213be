"""Apache Kafka's own tools over TLS and SASL, with Java's kind of certificates, and `kafka-acls`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_lite.cli import certs
from tests.support import kafka_tools
from tests.support.broker import BrokerProcess

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

LISTENERS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LOGIN = {"PLAIN": "plain.PlainLoginModule"} | {f"SCRAM-SHA-{bits}": "scram.ScramLoginModule" for bits in (256, 512)}


class Tools:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificates = folder / "certs"
        certs.make(self.certificates, ["localhost", "127.0.0.1"])
        arguments = [word for one in LISTENERS for word in ("--listen", f"{one}://127.0.0.1:0")]
        arguments += ["--sasl-user", "admin:secret", "--sasl-user", "bob:builder", "--topic", "t"]
        settings = {
            "ssl.keystore.location": str(self.certificates / "server.p12"),
            "ssl.keystore.password": certs.PASSWORD,
            "ssl.keystore.type": "PKCS12",
            "ssl.truststore.location": str(self.certificates / "truststore.p12"),
            "ssl.truststore.password": certs.PASSWORD,
            "listener.name.ssl.ssl.client.auth": "required",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:CN=client",
        }
        arguments += [word for name, text in settings.items() for word in ("--set", f"{name}={text}")]
        self.broker = BrokerProcess(folder / "broker", arguments, listen="")

    def run(self, java_class: str, words: list[str], listener: str, how: str | None, user: str, says: str = "") -> str:
        settings = {"security.protocol": listener, "default.api.timeout.ms": "20000", "request.timeout.ms": "15000"}
        if listener.endswith("SSL"):
            for store, file in (("truststore", "truststore.p12"), ("keystore", "client.p12")):
                settings[f"ssl.{store}.location"] = str(self.certificates / file)
                settings[f"ssl.{store}.password"] = certs.PASSWORD
                settings[f"ssl.{store}.type"] = "PKCS12"
        if how is not None:
            name, password = user.split(":")
            module = f"org.apache.kafka.common.security.{LOGIN[how]}"
            settings["sasl.mechanism"] = how
            settings["sasl.jaas.config"] = f'{module} required username="{name}" password="{password}";'
        properties = self.folder / "client.properties"
        properties.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
        command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_tools.jars()}/*", java_class]
        option = "--producer.config" if "ConsoleProducer" in java_class else "--command-config"
        where = ["--bootstrap-server", self.broker.addresses[listener], option, str(properties)]
        done = subprocess.run(
            [*command, *where, *words], input=says, capture_output=True, text=True, timeout=120, check=False
        )
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    kafka_tools.jars()
    made = Tools(tmp_path_factory.mktemp("tools"))
    with made.broker:
        yield made


TOPICS = "org.apache.kafka.tools.TopicCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"


@pytest.mark.parametrize(
    ("listener", "how"),
    [("SSL", None), ("SASL_PLAINTEXT", "PLAIN"), ("SASL_SSL", "SCRAM-SHA-256"), ("SASL_SSL", "SCRAM-SHA-512")],
)
def test_topics_are_listed(tools: Tools, listener: str, how: str | None) -> None:
    assert tools.run(TOPICS, ["--list"], listener, how, "admin:secret").split() == ["t"]


@pytest.mark.parametrize("how", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_told(tools: Tools, how: str) -> None:
    said = tools.run(TOPICS, ["--list"], "SASL_SSL", how, "admin:wrong")
    assert "SaslAuthenticationException" in said
    assert "Authentication failed" in said


def test_an_acl_lets_somebody_in_and_its_end_keeps_them_out(tools: Tools) -> None:
    def as_bob(java_class: str, *words: str, says: str = "") -> str:
        return tools.run(java_class, list(words), "SASL_SSL", "SCRAM-SHA-256", "bob:builder", says)

    def as_admin(*words: str) -> str:
        return tools.run(ACLS, list(words), "SASL_PLAINTEXT", "SCRAM-SHA-512", "admin:secret")

    assert "t" not in as_bob(TOPICS, "--list").split()
    assert "TopicAuthorizationException" in as_bob(PRODUCER, "--topic", "t", says="hello\n")
    assert "ClusterAuthorizationException" in as_bob(ACLS, "--list")
    made = as_admin("--add", "--allow-principal", "User:bob", "--operation", "Write", "--topic", "t")
    assert "(principal=User:bob, host=*, operation=WRITE, permissionType=ALLOW)" in made
    assert as_bob(TOPICS, "--list").split() == ["t"]
    assert "Exception" not in as_bob(PRODUCER, "--topic", "t", says="hello\n")
    assert "principal=User:bob" in as_admin("--list", "--topic", "t")
    as_admin("--remove", "--force", "--allow-principal", "User:bob", "--operation", "Write", "--topic", "t")
    assert as_bob(TOPICS, "--list").split() == []
