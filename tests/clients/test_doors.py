"""Each client comes in over TLS, with a password, and with both, and finds what it wrote.

What is refused and how is told is the matter of tests/security; here it is a row of the table for each way in.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker_lite.cli import certs
from tests.clients.client import BEGINNING, Door
from tests.clients.conftest import Matrix
from tests.clients.roster import taking_part
from tests.clients.table import Outcome
from tests.clients.world import World, same
from tests.support.broker import BrokerProcess

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]
USER, PASSWORD = "alice", "secret"
WAYS = {
    "TLS": ("SSL", ""),
    "SASL PLAIN": ("SASL_PLAINTEXT", "PLAIN"),
    "SASL SCRAM over TLS": ("SASL_SSL", "SCRAM-SHA-512"),
}


@dataclass(slots=True)
class House:
    broker: BrokerProcess
    certificates: Path

    def door(self, way: str) -> Door:
        protocol, mechanism = WAYS[way]
        ca = str(self.certificates / "ca.pem") if protocol.endswith("SSL") else ""
        who = {"mechanism": mechanism, "user": USER, "password": PASSWORD} if mechanism else {}
        return Door(protocol, ca, **who)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    if os.environ.get("BROKER_UNDER_TEST"):
        pytest.xfail("only our own broker is set up with certificates and passwords here")
    made = tmp_path_factory.mktemp("certificates")
    certs.make(made, ["localhost", "127.0.0.1"])
    protocols = ["PLAINTEXT", *(protocol for protocol, _ in WAYS.values())]
    arguments = [word for each in protocols for word in ("--listen", f"{each}://127.0.0.1:0")]
    arguments += ["--tls", str(made), "--sasl-user", f"{USER}:{PASSWORD}"]
    with BrokerProcess(tmp_path_factory.mktemp("house"), arguments, listen="") as broker:
        yield House(broker, made)
        broker.stop()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", [entry.name for entry in taking_part()])
def test_a_client_comes_in(name: str, way: str, house: House, matrix: Matrix) -> None:
    plain = house.broker.addresses["PLAINTEXT"]
    reference = matrix.client("confluent-kafka", plain)
    topic = World(reference, reference, reference).topic("door")
    client = matrix.client(name, house.broker.addresses[WAYS[way][0]])
    records = World(client, reference, reference).records(10)
    if way in client.lacks:
        matrix.expected(name, way, Outcome.NOT_OFFERED, "Apache Kafka refuses it, too")
    client.door = house.door(way)
    try:
        with matrix.judged(name, way):
            client.produce(topic, records)
            same(client.read(topic, BEGINNING, len(records)), records)
    finally:
        client.door = None
