from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_lite.apis.registry import REGISTRY
from broker_lite.broker.features import Features
from broker_lite.errors import ErrorCode
from broker_lite.wire.codec import decode
from broker_lite.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.support.talk import Talk, talking

HELLO = ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="4.3.1")


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path) as talk:
        yield talk


@pytest.mark.parametrize("version", range(5))
async def test_it_lists_what_is_served(talk: Talk, version: int) -> None:
    response = await talk.ask(HELLO, version, ApiVersionsResponse)
    told = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
    assert told == {api.key: (api.advertised[0], api.advertised[-1]) for api in REGISTRY.offered(talk.broker)}
    assert told[18] == (0, 4)
    assert response.error_code == 0


async def test_produce_is_told_from_version_0_or_old_librdkafka_stops_compressing(talk: Talk) -> None:
    response = await talk.ask(HELLO, 3, ApiVersionsResponse)
    assert [(one.min_version, one.max_version) for one in response.api_keys if one.api_key == 0] == [(0, 13)]


@pytest.mark.parametrize("version", [5, 100, 32767, -1])
async def test_a_version_we_do_not_know_is_answered_in_the_words_of_version_0(talk: Talk, version: int) -> None:
    frame = struct.pack(">hhih", 18, version, 7, 4) + b"test" + b"\0whatever this is"
    reply = await talk.ask_raw(memoryview(frame))
    assert reply is not None
    assert struct.unpack_from(">ii", reply) == (len(reply) - 4, 7)
    response, end = decode(ApiVersionsResponse, 0, memoryview(reply), 8)
    assert end == len(reply)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(one.api_key, one.min_version, one.max_version) for one in response.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize("name", ["", "-java", "java-", "a b", "j\x1b", "ö", "a\n"])
async def test_unreadable_software_is_an_invalid_request(talk: Talk, name: str) -> None:
    for request in (
        ApiVersionsRequest(client_software_name=name, client_software_version="1"),
        ApiVersionsRequest(client_software_name="a", client_software_version=name),
    ):
        response = await talk.ask(request, 3, ApiVersionsResponse)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert response.api_keys == []
    assert talk.facts.client_software_name == ""


async def test_the_connection_remembers_the_software(talk: Talk) -> None:
    await talk.ask(HELLO, 4, ApiVersionsResponse)
    assert (talk.facts.client_software_name, talk.facts.client_software_version) == ("apache-kafka-java", "4.3.1")


async def test_version_3_leaves_out_features_that_start_at_level_0(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    features = Features(
        supported=[("group.version", 0, 1), ("metadata.version", 7, 30)], finalized=[("group.version", 1)], epoch=3
    )
    monkeypatch.setattr(talk.broker, "features", lambda: features)
    for version, names in ((3, ["metadata.version"]), (4, ["group.version", "metadata.version"])):
        response = await talk.ask(HELLO, version, ApiVersionsResponse)
        assert [one.name for one in response.supported_features] == names
        (finalized,) = response.finalized_features
        assert (finalized.name, finalized.min_version_level, finalized.max_version_level) == ("group.version", 1, 1)
        assert response.finalized_features_epoch == 3
