"""The answer to a write gets lost, the client writes again, and the records are there once.

A wire that breaks lies between the clients and a broker of their own: the write is taken, and nobody is told.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.clients.client import BEGINNING, LATEST
from tests.clients.conftest import Matrix
from tests.clients.cutter import Cutter
from tests.clients.roster import taking_part
from tests.clients.table import Outcome
from tests.clients.world import World, same
from tests.support.broker import BrokerProcess

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]
ROW = "idempotent retry"


@dataclass(slots=True)
class Line:
    broker: BrokerProcess
    cutter: Cutter


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    if os.environ.get("BROKER_UNDER_TEST"):
        pytest.xfail("only our own broker is told to advertise the wire")
    cutter = Cutter()
    with BrokerProcess(tmp_path_factory.mktemp("line"), ["--advertise", cutter.address]) as broker:
        cutter.lead_to(broker.bootstrap)
        yield Line(broker, cutter)
        cutter.close()
        broker.stop()


@pytest.mark.parametrize("name", [entry.name for entry in taking_part()])
def test_what_is_written_again_is_there_once(name: str, line: Line, matrix: Matrix) -> None:
    client = matrix.client(name, line.cutter.address)
    if lacking := client.lacks & {"idempotent", ROW}:
        matrix.expected(name, ROW, Outcome.NOT_OFFERED, ", ".join(lacking))
    reference = matrix.client("confluent-kafka", line.cutter.address)
    world = World(client, reference, reference)
    topic, records = world.topic("retry"), world.records(10)
    line.cutter.cut_next_produce()
    with matrix.judged(name, ROW):
        client.produce(topic, records, idempotent=True)
        assert line.cutter.cuts == 1, "no answer was lost"
        assert reference.offset_of(topic, LATEST) == len(records), "a record is there twice"
        same(reference.read(topic, BEGINNING, len(records)), records)
