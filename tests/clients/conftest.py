"""One broker and one of each client for the whole matrix, and the table of what came out.

    pytest tests/clients                                     our broker, started here
    BROKER_UNDER_TEST=localhost:9092 pytest tests/clients    any broker that runs already
    BROKER_UNDER_TEST=apache pytest tests/clients            Apache Kafka, started here: it must be faultless
    pytest tests/clients --clients-table docs/clients.md     write the table, too

A scenario that the broker or the client does not have ends as an expected failure that says so, never as a skip: a skip
means that something is not installed on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.clients.client import Client, NotOffered
from tests.clients.roster import ROSTER
from tests.clients.scenarios import GROUP, Scenario
from tests.clients.served import served_keys
from tests.clients.subject import Subject, under_test
from tests.clients.table import Outcome, Results, write_table
from tests.clients.world import World


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--clients-table", type=Path, help="write the table client x scenario to this Markdown file")


@dataclass(slots=True)
class Matrix:
    """The clients, made when first asked for, and what each of them achieved."""

    broker: Subject
    folder: Path
    results: Results
    served: frozenset[int] = frozenset()
    clients: dict[str, Client] = field(default_factory=dict)

    def client(self, name: str, bootstrap: str | None = None) -> Client:
        """The client, pointed at a broker (the shared one unless told otherwise)."""
        entry = next(each for each in ROSTER if each.name == name)
        if (line := entry.missing()) is not None:
            pytest.skip(line)
        if name not in self.clients:
            self.clients[name] = entry.make(self.folder)
            self.results.versions[name] = self.clients[name].version()
        self.clients[name].bootstrap = bootstrap or self.broker.bootstrap
        return self.clients[name]

    def can_read(self, client: Client) -> bool:
        return not client.reads_in_groups or self.served >= GROUP

    def run(self, name: str, scenario: Scenario) -> None:
        client, reference = self.client(name), self.client("confluent-kafka")
        if lacking := scenario.abilities & client.lacks:
            self.expected(name, scenario.name, Outcome.NOT_OFFERED, ", ".join(sorted(lacking)))
        needed = scenario.keys | (GROUP if client.reads_in_groups and scenario.reads else frozenset())
        needed |= client.more_keys.get(scenario.name, frozenset())
        if unserved := needed - self.served:
            self.expected(name, scenario.name, Outcome.NOT_SERVED, f"key {', '.join(map(str, sorted(unserved)))}")
        reader = client if self.can_read(client) else reference
        with self.judged(name, scenario.name):
            scenario.run(World(client, reference, reader))

    @contextmanager
    def judged(self, name: str, row: str) -> Iterator[None]:
        """What is done in here is noted in the table: it passes, is not offered, or fails with a reason."""
        try:
            yield
        except NotOffered as no:
            self.expected(name, row, Outcome.NOT_OFFERED, str(no))
        except BaseException as failure:  # whatever it is, also a time limit, stands in the table
            self.results.note(name, row, Outcome.FAILS, (str(failure) or repr(failure)).splitlines()[0])
            self.clients[name].close()
            raise
        self.results.note(name, row, Outcome.PASS)

    def expected(self, name: str, scenario: str, outcome: Outcome, why: str) -> None:
        self.results.note(name, scenario, outcome, why)
        pytest.xfail(f"{outcome.value}: {why}")


@pytest.fixture(scope="session")
def results(request: pytest.FixtureRequest) -> Iterator[Results]:
    collected = Results()
    yield collected
    if (path := request.config.getoption("--clients-table")) is not None:
        write_table(path, collected)


@pytest.fixture(scope="session")
def subject(tmp_path_factory: pytest.TempPathFactory, results: Results) -> Iterator[Subject]:
    """The broker under test, which is ours unless BROKER_UNDER_TEST says otherwise."""
    with under_test(os.environ.get("BROKER_UNDER_TEST", ""), tmp_path_factory.mktemp("broker")) as broker:
        results.broker = broker.describe()
        yield broker


@pytest.fixture(scope="session")
def matrix(subject: Subject, results: Results, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    made = Matrix(subject, tmp_path_factory.mktemp("clients"), results, served_keys(subject.bootstrap))
    yield made
    for client in made.clients.values():
        client.close()
