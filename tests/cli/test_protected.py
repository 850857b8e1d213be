"""Every command that talks to a broker gets in with a properties file: over TLS, with a certificate, by each mechanism.

The same files are tried on Apache Kafka, so they mean what they mean there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from broker_lite.cli import VERBS, certs, main
from tests.support.broker import BrokerProcess
from tests.support.kafka_server import KafkaServer
from tests.support.sockets import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

LISTENERS = {"SSL": "SSL", "MUTUAL": "SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT", "SASL_SSL": "SASL_SSL"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
WAYS = [("SSL", ""), ("MUTUAL", ""), *((one, how) for one in ("SASL_PLAINTEXT", "SASL_SSL") for how in MECHANISMS)]
MODULES = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certs")
    certs.make(made, ["localhost", "127.0.0.1"], client="alice")
    return made


def behind_everything(folder: Path) -> list[str]:
    """Arguments of a broker with one listener of each kind, and every mechanism."""
    arguments = [word for one in LISTENERS for word in ("--listen", f"{one}://127.0.0.1:0")]
    arguments += ["--tls", str(folder), "--sasl-user", "alice:secret", "--topic", "t"]
    for setting in (
        "listener.security.protocol.map=" + ",".join(f"{name}:{kind}" for name, kind in LISTENERS.items()),
        "listener.name.mutual.ssl.client.auth=required",
        f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
        "broker.lite.sasl.oauthbearer.unsecured=true",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:alice;User:CN=alice;User:ANONYMOUS",
    ):
        arguments += ["--set", setting]
    return arguments


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), behind_everything(folder), listen="") as broker:
        yield broker


def properties(file: Path, folder: Path, listener: str, how: str, password: str = "secret") -> str:
    """A file as Kafka's tools take it, too."""
    said = {"security.protocol": LISTENERS[listener]}
    if LISTENERS[listener].endswith("SSL"):
        said |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "ca.pem")}
    if listener == "MUTUAL":
        said |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / "client.pem")}
    if how == "OAUTHBEARER":
        login = f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";'
        said |= {"sasl.mechanism": how, "sasl.jaas.config": login}
    elif how:
        module = "plain.PlainLoginModule" if how == "PLAIN" else "scram.ScramLoginModule"
        login = f'{MODULES}.{module} required username="alice" password="{password}";'
        said |= {"sasl.mechanism": how, "sasl.jaas.config": login}
    file.write_text("".join(f"{key}={value}\n" for key, value in said.items()))
    return str(file)


def everything_works(bootstrap: str, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> str:
        code = main([*words, "--bootstrap", bootstrap, "--command-config", config])
        said = capsys.readouterr()
        assert code == 0, said.err
        return said.out

    assert run("health").startswith("ready: broker 1 ")
    assert "Produce" in run("api-versions")
    run("topics", "create", "t", "--if-not-exists")
    assert "t" in run("topics", "list").split()
    assert [one["name"] for one in json.loads(run("topics", "describe", "t", "--json"))] == ["t"]
    run("produce", "t", "hello")
    assert run("consume", "t", "--from-beginning", "--count", "1") == "hello\n"
    run("groups", "list")
    assert "num.partitions" in run("configs", "describe", "broker", "1", "--all")
    run("quotas", "list")
    run("users", "list")
    run("transactions", "list")
    assert "t-0" in run("log-dirs")
    assert "127.0.0.1" in run("cluster")


@pytest.mark.parametrize(("listener", "how"), WAYS)
def test_every_command_gets_in(
    broker: BrokerProcess, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], listener: str, how: str
) -> None:
    config = properties(tmp_path / "client.properties", folder, listener, how)
    everything_works(broker.addresses[listener], config, capsys)


def parsers(made: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """It, and those of its own verbs."""
    yield made
    for action in made._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from parsers(one)


def test_no_command_that_takes_an_address_is_left_out() -> None:
    for verb in set(VERBS) - {"pipeline"}:  # Spark has options of its own
        for one in parsers(import_module(f"broker_lite.cli.{verb.replace('-', '_')}").parser()):
            options = {text for action in one._actions for text in action.option_strings}
            assert ("--bootstrap" in options) == ("--command-config" in options), one.prog


def refused(capsys: pytest.CaptureFixture[str], bootstrap: str, *words: str) -> str:
    """The one line that says why."""
    code = main(["health", "--bootstrap", bootstrap, *words])
    said = capsys.readouterr()
    assert (code, said.out, said.err.count("\n")) == (1, "", 1)
    return said.err


@pytest.mark.parametrize(("listener", "how"), [way for way in WAYS if way[1] and way[1] != "OAUTHBEARER"])
def test_a_wrong_password_is_told(
    broker: BrokerProcess, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], listener: str, how: str
) -> None:
    config = properties(tmp_path / "c", folder, listener, how, password="wrong")
    told = refused(capsys, broker.addresses[listener], "--command-config", config)
    assert "uthentication failed" in told


def test_a_listener_of_another_kind_is_guessed(
    broker: BrokerProcess, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for listener in ("SSL", "SASL_SSL", "SASL_PLAINTEXT"):
        assert "--command-config" in refused(capsys, broker.addresses[listener])
    tls = properties(tmp_path / "tls", folder, "SSL", "")
    assert "it does not speak TLS" in refused(capsys, broker.addresses["SASL_PLAINTEXT"], "--command-config", tls)
    assert "wants to see a certificate" in refused(capsys, broker.addresses["MUTUAL"], "--command-config", tls)
    (tmp_path / "nobody").write_text("security.protocol=SSL\n")
    told = refused(capsys, broker.addresses["SSL"], "--command-config", str(tmp_path / "nobody"))
    assert "certificate is not to be trusted" in told


def test_a_health_check_in_a_container_is_told_by_the_environment(
    broker: BrokerProcess, folder: Path, tmp_path: Path
) -> None:
    """The image's own check is `broker-lite health` without options."""
    here = {
        "BROKER_LITE_BOOTSTRAP": broker.addresses["SASL_SSL"],
        "BROKER_LITE_COMMAND_CONFIG": properties(tmp_path / "c", folder, "SASL_SSL", "SCRAM-SHA-256"),
    }
    command = [sys.executable, "-m", "broker_lite", "health"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **here}, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def kafka_behind_everything(home: Path, folder: Path) -> tuple[KafkaServer, dict[str, str]]:
    """An Apache Kafka with the same listeners, and their addresses."""
    plain = f'{MODULES}.plain.PlainLoginModule required user_alice="secret";'
    token = f"{MODULES}.oauthbearer"
    settings = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
        + ",".join(f"{name}:{kind}" for name, kind in LISTENERS.items()),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "ssl.keystore.location": str(folder / "server.p12"),
        "ssl.keystore.password": certs.PASSWORD,
        "ssl.key.password": certs.PASSWORD,
        "ssl.keystore.type": "PKCS12",
        "ssl.truststore.location": str(folder / "truststore.p12"),
        "ssl.truststore.password": certs.PASSWORD,
        "ssl.truststore.type": "PKCS12",
        "listener.name.mutual.ssl.client.auth": "required",
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        name = f"listener.name.{listener}"
        settings[f"{name}.plain.sasl.jaas.config"] = plain
        for bits in (256, 512):
            settings[f"{name}.scram-sha-{bits}.sasl.jaas.config"] = f"{MODULES}.scram.ScramLoginModule required;"
        settings[f"{name}.oauthbearer.sasl.jaas.config"] = (
            f'{token}.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
        )
        settings[f"{name}.oauthbearer.sasl.server.callback.handler.class"] = (
            f"{token}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
        )
    kafka = KafkaServer(home, settings)
    addresses = {name: f"127.0.0.1:{free_port()}" for name in LISTENERS}
    kafka.more_listeners = ",".join(f"{name}://{address}" for name, address in addresses.items())
    return kafka, addresses


def add_alice(kafka: KafkaServer, folder: Path) -> None:
    (folder / "password").write_text("secret\n")
    words = ["users", "add", "alice", "--bootstrap", kafka.bootstrap, "--password-file", str(folder / "password")]
    assert main(words) == 0


@pytest.mark.kafka
def test_the_same_files_get_into_apache_kafka(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kafka, addresses = kafka_behind_everything(tmp_path / "kafka", folder)
    with kafka:
        add_alice(kafka, tmp_path)
        capsys.readouterr()
        for listener, how in WAYS:
            config = properties(tmp_path / "client.properties", folder, listener, how)
            everything_works(addresses[listener], config, capsys)
            if how and how != "OAUTHBEARER":
                wrong = properties(tmp_path / "wrong.properties", folder, listener, how, password="wrong")
                told = refused(capsys, addresses[listener], "--command-config", wrong)
                assert "uthentication failed" in told
