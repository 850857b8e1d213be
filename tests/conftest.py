"""Fixtures that start brokers, and the rule that a run which counts leaves nothing out.

Each test belongs to exactly one *part*, which is what `make test` runs and times: the folder or a marker decides, and
without either it is the unit part.  With CI=true a skipped test is a failed test, because there everything is
installed; only what needs root or a container engine may be missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.broker import BrokerProcess

PARTS = ("containers", "packaging", "docs", "spark", "kafka", "clients", "slow")
"""Parts besides `unit`; a test that bears two of the markers belongs to the first one named here."""
MAY_BE_SKIPPED = ("containers", "needs_root")
FULL = os.environ.get("CI") == "true"

# A run that counts finds today what it found yesterday; new ground is broken by `make torture`.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("adventurous", deadline=None)
settings.load_profile("adventurous" if os.environ.get("BROKER_LITE_TORTURE") else "steady")

_broken_down: list[bool] = []
StartBroker = Callable[..., BrokerProcess]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", choices=("unit", *PARTS), help="run only the tests of this part")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for name in item.path.relative_to(config.rootpath).parts[:2]:
            if (part := name.removeprefix("test_").removesuffix(".py")) in PARTS:
                item.add_marker(part)
    if wanted := config.getoption("--part"):
        chosen = [item for item in items if part_of(item) == wanted]
        config.hook.pytest_deselected(items=[item for item in items if part_of(item) != wanted])
        items[:] = chosen


def part_of(item: pytest.Item) -> str:
    return next((part for part in PARTS if item.get_closest_marker(part)), "unit")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    excused = hasattr(report, "wasxfail") or any(item.get_closest_marker(marker) for marker in MAY_BE_SKIPPED)
    if FULL and report.skipped and not excused:
        refuse_skip(report)
    if report.failed:
        for name, broker in brokers_of(item):
            report.sections.append((f"{name} ({broker.folder})", broker.story()))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if FULL and report.skipped and "containers" not in collector.nodeid:
        refuse_skip(report)
    return report


def pytest_internalerror() -> None:
    """A worker of xdist that breaks down takes its test with it, and those who are left say that all is well."""
    _broken_down.append(True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _broken_down:
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


def refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure that says why the test could not run."""
    where = report.longrepr
    reason = where[2] if isinstance(where, tuple) else str(where)
    report.outcome = "failed"
    report.longrepr = f"with CI=true nothing may be left out, but this was: {reason}"


def brokers_of(item: pytest.Item) -> Iterator[tuple[str, BrokerProcess]]:
    for name, value in getattr(item, "funcargs", {}).items():
        if isinstance(value, BrokerProcess):
            yield name, value
        elif name == "broker_process":
            for number, broker in enumerate(value.started):
                yield f"broker {number}", broker


class BrokerFactory:
    """Starts brokers, each in a folder of its own, and remembers them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[BrokerProcess] = []

    def __call__(self, *arguments: str, start: bool = True, **environment: str) -> BrokerProcess:
        """A running broker; arguments go to its command line, keywords into its environment."""
        broker = BrokerProcess(self.folder / f"broker-{len(self.started)}", arguments, environment=environment)
        self.started.append(broker)
        return broker.start() if start else broker

    def end(self) -> None:
        for broker in self.started:
            if broker.alive:
                broker.kill()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests that only need some broker: use names of your own for topics."""
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as process:
        yield process
        if process.alive:
            process.stop()


@pytest.fixture
def broker_process(tmp_path: Path) -> Iterator[BrokerFactory]:
    """Call it to start a broker of your own; what still runs at the end of the test is killed."""
    factory = BrokerFactory(tmp_path)
    yield factory
    factory.end()
