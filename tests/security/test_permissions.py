"""Two principals walk over every API in every version: one may do everything, the other nothing.

Requests are filled from their declarations, so a new API is walked over as soon as it is served; and it needs a row.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from broker_lite.apis import registry
from broker_lite.apis.routes import Served
from broker_lite.apis.rows import ROWS, free
from broker_lite.config.start import TopicAtStart
from broker_lite.errors import ErrorCode, Malformed
from broker_lite.wire.layout import Array, Scalar, Slot, Struct, layout
from tests.support.talk import Talk, talking

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
REFUSALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
LISTS = {16: "groups", 66: "transaction_states"}
"""APIs that leave out what one may not see."""
OPEN = {60}
"""Everybody may see the brokers, as with Kafka."""
SPOKEN = {"acks": 1, "resource_type": 2, "key_type": 0, "replica_id": -1, "endpoint_type": 1}
ABOUT = {"mechanism", "client_software_name", "client_software_version"}

registry.load()
TABLE = [api for api in registry.REGISTRY.table() if api.only_if is None]


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    settings = {"authorizer.class.name": AUTHORIZER, "super.users": "User:root"}
    async with talking(tmp_path, settings=settings, topics=[TopicAtStart("x", 1)]) as talk:
        yield talk


def filled(form: Struct, topic_id: bytes) -> object:
    return form.cls(**{slot.name: _value(slot, topic_id) for slot in form.slots if slot.present and slot.tag is None})


def _value(slot: Slot, topic_id: bytes) -> object:
    if isinstance(slot.type, Array):
        return [_single(slot.type.element, topic_id)]
    return SPOKEN.get(slot.name, _single(slot.type, topic_id))


def _single(kind: Scalar | Struct, topic_id: bytes) -> object:
    if isinstance(kind, Struct):
        return filled(kind, topic_id)
    return {"string": "x", "bytes": b"", "records": b"", "uuid": topic_id, "bool": False, "float64": 0.0}.get(
        kind.name, 0
    )


def codes(response: object) -> Iterator[int]:
    for name in getattr(type(response), "__fields__", {}):
        value = getattr(response, name)
        if name in ("error_code", "partition_error_code"):
            yield value
        for one in value if isinstance(value, list) else [value]:
            yield from codes(one)


async def answer(talk: Talk, api: Served, version: int, who: str) -> object | None:
    """None if it waits for something, which is not a refusal."""
    talk.facts.principal = who
    topic = talk.broker.topics.get("x")
    request = filled(layout(api.request, version), b"\1" * 16 if topic is None else topic.id)
    if api.key == 3 and version < 12 and version >= 10:
        request.topics[0].topic_id = bytes(16)  # type: ignore[attr-defined]
    with contextlib.suppress(TimeoutError):
        return await asyncio.wait_for(talk.ask(request, version, api.response), 0.05)
    return None


EVERY_VERSION = [(api, version) for api in TABLE for version in api.versions]


def test_every_api_has_a_row() -> None:
    assert [api.name for api in TABLE if api.key not in ROWS] == []


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=lambda one: getattr(one, "name", str(one)))
async def test_who_may_do_nothing_is_refused_everything(talk: Talk, api: Served, version: int) -> None:
    topics = {topic.name for topic in talk.broker.topics}
    response = await answer(talk, api, version, "User:nobody")
    assert response is not None, "it waits"
    if api.key in LISTS:
        assert getattr(response, LISTS[api.key]) == []
    elif ROWS[api.key] is not free and api.key not in OPEN:
        assert REFUSALS & set(codes(response)), response
        assert set(codes(response)) <= {*REFUSALS, ErrorCode.NONE}, response
    assert {topic.name for topic in talk.broker.topics} == topics


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=lambda one: getattr(one, "name", str(one)))
async def test_who_may_do_everything_is_refused_nothing(talk: Talk, api: Served, version: int) -> None:
    try:
        response = await answer(talk, api, version, "User:root")
    except Malformed:
        return  # of the handler, which has its own opinion of requests filled by rule
    assert not REFUSALS & set(codes(response)), response
