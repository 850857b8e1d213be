"""What a client wrote is there for it after the broker was stopped, and after it was killed.

The broker of these tests is their own, because everybody else's would be gone with it.  All clients write first, then
the broker goes down once in each way, then all of them read: three starts instead of three for each client.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.clients.client import BEGINNING, LATEST, Record
from tests.clients.conftest import Matrix
from tests.clients.roster import taking_part
from tests.clients.scenarios import DATA
from tests.clients.served import served_keys
from tests.clients.subject import Subject, under_test
from tests.clients.world import World, same

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]
CLIENTS = [entry.name for entry in taking_part()]


@dataclass(slots=True)
class Mortal:
    """A broker that will die, and what each client wrote to it."""

    broker: Subject
    matrix: Matrix
    written: dict[str, tuple[str, list[Record]]] = field(default_factory=dict)

    def world(self, name: str) -> World:
        client = self.matrix.client(name, self.broker.bootstrap)
        reference = self.matrix.client("confluent-kafka", self.broker.bootstrap)
        return World(client, reference, client if self.matrix.can_read(client) else reference)

    def write(self, name: str) -> None:
        """Ten records more, acknowledged by all there are."""
        world = self.world(name)
        topic, records = self.written.get(name) or (world.topic("mortal"), [])
        more = world.records(10)
        world.client.produce(topic, more, codec="none" if records else "gzip", acks=-1)
        self.written[name] = topic, records + more

    def check(self, name: str, how: str) -> None:
        world = self.world(name)
        topic, records = self.written[name]
        with self.matrix.judged(name, how):
            world.holds(topic, len(records))
            same(world.reader.read(topic, BEGINNING, len(records)), records)
            assert world.reference.offset_of(topic, LATEST) == len(records), "there is more than was written"


def chosen(session: pytest.Session) -> set[str]:
    """Whom this run is about: with `-k streams` nobody has to wait until all others are built."""
    here = [item for item in session.items if isinstance(item, pytest.Function) and item.path == Path(__file__)]
    return {str(item.callspec.params["client"]) for item in here}


@pytest.fixture(scope="module")
def mortal(
    request: pytest.FixtureRequest, matrix: Matrix, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mortal]:
    asked = os.environ.get("BROKER_UNDER_TEST", "")
    if asked not in ("", "apache"):
        pytest.xfail("a broker that somebody else started is not ours to stop")
    with under_test(asked, tmp_path_factory.mktemp("mortal")) as broker:
        assert served_keys(broker.bootstrap) >= DATA
        made = Mortal(broker, matrix)
        wanted = chosen(request.session)
        for entry in taking_part():
            if entry.name in wanted and entry.missing() is None:
                made.write(entry.name)
        yield made


@pytest.fixture(scope="module")
def restarted(mortal: Mortal) -> Mortal:
    mortal.broker.restart(kill=False)
    return mortal


@pytest.fixture(scope="module")
def killed(restarted: Mortal) -> Mortal:
    for name in restarted.written:
        restarted.write(name)
    restarted.broker.restart(kill=True)
    return restarted


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_reads_back_after_a_restart(client: str, restarted: Mortal) -> None:
    restarted.check(client, "after a restart")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_reads_back_after_kill_9(client: str, killed: Mortal) -> None:
    killed.check(client, "after kill -9")
