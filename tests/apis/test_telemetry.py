"""Client telemetry: off unless it is wanted, then what a client pushes is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_lite.broker.telemetry import MOST_CLIENTS
from broker_lite.config.key import Scope
from broker_lite.errors import ErrorCode, Malformed
from broker_lite.records.compression import Codec, deflate
from broker_lite.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker_lite.wire.messages.k71_get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from broker_lite.wire.messages.k72_push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from broker_lite.wire.schema import ZERO_UUID
from tests.support.talk import Talk, talking

Subscribed = GetTelemetrySubscriptionsResponse


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path, settings={"telemetry.enable": "true", "telemetry.max.bytes": "1000"}) as talk:
        yield talk


def subscribe(talk: Talk, name: str, **texts: str) -> None:
    configs = {key.replace("_", "."): text for key, text in texts.items()}
    talk.broker.configs.set(Scope.CLIENT_METRICS, name, configs)


async def get(talk: Talk, instance: bytes = ZERO_UUID) -> Subscribed:
    return await talk.ask(GetTelemetrySubscriptionsRequest(client_instance_id=instance), 0, Subscribed)


async def push(
    talk: Talk, asked: Subscribed, metrics: bytes, codec: int = 0, *, last: bool = False, number: int | None = None
) -> int:
    request = PushTelemetryRequest(
        client_instance_id=asked.client_instance_id,
        subscription_id=asked.subscription_id if number is None else number,
        terminating=last,
        compression_type=codec,
        metrics=metrics,
    )
    return (await talk.ask(request, 0, PushTelemetryResponse)).error_code


async def told(talk: Talk) -> set[int]:
    return {one.api_key for one in (await talk.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)).api_keys}


async def test_clients_do_not_see_it_unless_it_is_switched_on(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        assert not {71, 72} & await told(talk)
        with pytest.raises(Malformed, match=r"telemetry\.enable"):
            await get(talk)


async def test_without_a_subscription_nothing_is_wanted(talk: Talk) -> None:
    assert {71, 72} <= await told(talk)
    asked = await get(talk)
    assert asked.client_instance_id != ZERO_UUID
    assert (asked.requested_metrics, asked.push_interval_ms, asked.telemetry_max_bytes) == ([], 300000, 1000)
    assert (await get(talk, asked.client_instance_id)).client_instance_id == asked.client_instance_id


async def test_subscriptions_that_match_are_put_together(talk: Talk) -> None:
    subscribe(talk, "a", metrics="org.apache.kafka.producer.", interval_ms="5000", match="client_id=te.*")
    subscribe(talk, "b", metrics="*", interval_ms="1000")
    subscribe(talk, "c", metrics="other.", match="client_id=nobody")
    asked = await get(talk)
    assert asked.requested_metrics == ["org.apache.kafka.producer.", ""]
    assert asked.push_interval_ms == 1000
    subscribe(talk, "b")
    assert (await get(talk)).subscription_id != asked.subscription_id


@pytest.mark.parametrize("codec", list(Codec))
async def test_the_last_push_of_a_client_is_kept(talk: Talk, codec: Codec) -> None:
    subscribe(talk, "a", metrics="*")
    asked = await get(talk)
    for words in (b"first " * 9, b"second " * 9):
        assert await push(talk, asked, words if codec is Codec.NONE else deflate(codec, words), codec) == 0
    (kept,) = talk.broker.telemetry.last.values()
    assert (kept.metrics, kept.facts["client_id"]) == (b"second " * 9, "test")


async def test_a_wrong_push_is_refused(talk: Talk) -> None:
    subscribe(talk, "a", metrics="*")
    asked = await get(talk)
    assert await push(talk, asked, b"x", number=asked.subscription_id + 1) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert await push(talk, asked, b"x" * 1001) == ErrorCode.TELEMETRY_TOO_LARGE
    assert await push(talk, asked, b"x", 9) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert await push(talk, asked, b"no gzip", Codec.GZIP) == ErrorCode.INVALID_REQUEST
    assert await push(talk, asked, deflate(Codec.GZIP, b"\0" * 900_000), Codec.GZIP) == ErrorCode.INVALID_REQUEST
    assert talk.broker.telemetry.last == {}
    assert await push(talk, asked, b"bye", last=True) == 0
    assert await push(talk, asked, b"again") == ErrorCode.INVALID_REQUEST
    nobody = Subscribed(
        client_instance_id=ZERO_UUID,
        subscription_id=asked.subscription_id,
        accepted_compression_types=[],
        push_interval_ms=0,
        telemetry_max_bytes=0,
        delta_temporality=True,
        requested_metrics=[],
    )
    assert await push(talk, nobody, b"x") == ErrorCode.INVALID_REQUEST


async def test_only_so_many_clients_are_remembered(talk: Talk) -> None:
    subscribe(talk, "a", metrics="*")
    for number in range(MOST_CLIENTS + 5):
        asked = await get(talk, (number + 1).to_bytes(16, "big"))
        assert await push(talk, asked, b"x") == 0
    assert len(talk.broker.telemetry.last) == MOST_CLIENTS
