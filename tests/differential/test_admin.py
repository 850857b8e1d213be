"""The same admin requests to Apache Kafka and to us, one after the other: the same codes, texts, defaults and lists.

What differs on purpose is named in `questions.py`, explained in `docs/differences.md`, and has to differ indeed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from broker_lite.client.connection import Connection, Unreachable
from broker_lite.wire.messages import response_class
from broker_lite.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from broker_lite.wire.schema import fields_of, spec_of
from tests.differential.questions import Question, questions
from tests.support.broker import BrokerProcess
from tests.support.kafka_server import KafkaServer
from tests.support.kafka_tools import jars

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(400)]

EXPLAINED = (Path(__file__).parents[2] / "docs" / "differences.md").read_text()
CHANCE = {"throttle_time_ms", "topic_id", "log_dir", "total_bytes", "usable_bytes", "documentation"}
"""What no two brokers have in common."""
OURS = "broker.lite."
SETTLED_WITHIN = 0.3
"""Seconds after which Kafka's broker has heard of what its controller decided. Nothing tells when it has."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    jars()
    folder = tmp_path_factory.mktemp("differential")
    with KafkaServer(folder / "kafka") as kafka, BrokerProcess(folder / "ours") as ours:
        yield kafka.bootstrap, ours.bootstrap


def plain(value: object) -> object:
    """A message as what can be compared: what is left to chance is gone, and lists are sets."""
    if type(value).__module__.startswith("broker_lite.wire.messages."):
        return {name: plain(getattr(value, name)) for name in fields_of(type(value)) if name not in CHANCE}
    if isinstance(value, list):
        kept = [one for one in value if not getattr(one, "name", "").startswith(OURS)]
        return sorted(map(plain, kept), key=repr)
    return value


async def ask(bootstrap: str, asked: list[Question]) -> list[object]:
    host, _, port = bootstrap.rpartition(":")
    connection = await Connection.open(host, int(port), client_id="differential", timeout=60)
    answers: list[object] = []
    for question in asked:
        key = spec_of(type(question.request)).key
        assert key is not None
        if type(question.request).__name__.startswith(("Describe", "List")):
            await anyio.sleep(SETTLED_WITHIN)
        try:
            response = await connection.request(question.request, response_class(key), at_most=question.version)
        except Unreachable as error:
            answers.append(str(error))
            connection = await Connection.open(host, int(port), client_id="differential", timeout=60)
        else:
            answers.append(plain(response))
    await connection.close()
    return answers


def test_every_request_is_answered_as_kafka_answers_it(both: tuple[str, str]) -> None:
    asked = list(questions())
    theirs, ours = (anyio.run(ask, bootstrap, asked) for bootstrap in both)
    wrong: list[str] = []
    for question, his, mine in zip(asked, theirs, ours, strict=True):
        if his != mine and not question.name:
            wrong.append(f"{question.request}\n  Kafka {his}\n  ours  {mine}")
        if his == mine and question.name:
            wrong.append(f"{question.name}: no difference any more\n  {question.request}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", sorted({question.name for question in questions() if question.name}))
def test_every_difference_is_explained(name: str) -> None:
    assert f"| {name} |" in EXPLAINED


async def _broker_keys(bootstrap: str) -> dict[str, tuple[str | None, int, bool]]:
    """Key -> default, type and whether it can be changed while running."""
    host, _, port = bootstrap.rpartition(":")
    connection = await Connection.open(host, int(port), client_id="differential", timeout=60)
    asked = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[asked], include_synonyms=True)
    (found,) = (await connection.request(request, DescribeConfigsResponse)).results
    await connection.close()
    return {
        config.name: (
            next((said.value for said in config.synonyms if said.source == 5 and said.name == config.name), None),
            config.config_type,
            config.read_only,
        )
        for config in found.configs
        if not config.name.startswith(OURS)
    }


def test_the_brokers_keys_have_kafkas_defaults_and_types_or_an_explanation(both: tuple[str, str]) -> None:
    theirs, ours = (anyio.run(_broker_keys, bootstrap) for bootstrap in both)
    unknown = sorted(set(ours) - set(theirs) - {"allow.everyone.if.no.acl.found", "super.users", "telemetry.enable"})
    assert unknown == []
    different = {name for name in set(ours) & set(theirs) if ours[name] != theirs[name]}
    missing = sorted(name for name in different if f"`{name}`" not in EXPLAINED)
    assert missing == [], {name: (theirs[name], ours[name]) for name in missing}
