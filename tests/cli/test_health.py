"""Where a health check looks that is told nothing but its broker's environment."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from broker_lite.cli import main
from broker_lite.cli.health import parser
from tests.support.broker import BrokerProcess

TWO = {"KAFKA_LISTENERS": "CONTROLLER://:9093,PLAINTEXT://:29092", "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER"}
OUT = {"KAFKA_ADVERTISED_LISTENERS": "OUT://a.b:39092", "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "OUT:PLAINTEXT"}


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({}, "localhost:9092"),
        ({"KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9090"}, "localhost:9090"),
        (TWO, "localhost:29092"),
        (OUT, "localhost:39092"),
        ({"KAFKA_LISTENERS": "SSL://:9094,PLAINTEXT://10.1.2.3:9095"}, "10.1.2.3:9095"),
        ({"KAFKA_LISTENERS": "PLAINTEXT://:9090", "BROKER_LITE_LISTENERS": "PLAINTEXT://[::1]:1234"}, "[::1]:1234"),
        ({"KAFKA_LISTENERS": "PLAINTEXT://:9090", "BROKER_LITE_BOOTSTRAP": "there:1"}, "there:1"),
        ({"KAFKA_LISTENERS": "SASL_PLAINTEXT://:9099"}, "localhost:9099"),
        ({"KAFKA_LISTENERS": "PLAINTEXT://:0"}, "localhost:9092"),
        ({"KAFKA_LISTENERS": "nonsense"}, "localhost:9092"),
    ],
)
def test_it_looks_where_the_broker_listens(
    environment: dict[str, str], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BROKER_LITE_BOOTSTRAP", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert parser().parse_args([]).bootstrap == address


def test_a_broker_on_another_port_is_found_by_its_environment(broker: BrokerProcess) -> None:
    here = {"KAFKA_LISTENERS": f"PLAINTEXT://:{broker.port}"}
    environment = {name: value for name, value in os.environ.items() if name != "BROKER_LITE_BOOTSTRAP"}
    command = [sys.executable, "-m", "broker_lite", "health"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment | here, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ready: broker 1 ")


def test_a_listener_that_asks_for_a_log_in_is_ready_when_it_takes_connections(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BROKER_LITE_BOOTSTRAP", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setenv("KAFKA_LISTENERS", f"SASL_SSL://127.0.0.1:{port}")
        assert main(["health"]) == 0
    assert capsys.readouterr().out.startswith(f"ready: 127.0.0.1:{port} takes connections")
    for words in ([], ["--bootstrap", f"127.0.0.1:{port}"]):
        assert main(["health", *words]) == 1
        assert capsys.readouterr().err == f"broker-lite: cannot connect to 127.0.0.1:{port}: Connection refused\n"
