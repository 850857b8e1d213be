"""FindCoordinator: one key or many, and what stands where an error would."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_lite.wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.support.talk import Talk, talking


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path) as talk:
        yield talk


@pytest.mark.parametrize("key_type", [0, 1])
@pytest.mark.parametrize("version", [1, 2, 3])
async def test_the_coordinator_of_one_key_comes_with_the_word_none(talk: Talk, version: int, key_type: int) -> None:
    request = FindCoordinatorRequest(key="k", key_type=key_type)
    answer = await talk.ask(request, version, FindCoordinatorResponse)
    assert (answer.error_code, answer.error_message, answer.node_id) == (0, "NONE", 1)


@pytest.mark.parametrize("key_type", [0, 1])
@pytest.mark.parametrize("version", [4, 5, 6])
async def test_the_coordinators_of_many_keys_come_with_an_empty_text(talk: Talk, version: int, key_type: int) -> None:
    request = FindCoordinatorRequest(coordinator_keys=["k", "l"], key_type=key_type)
    answer = await talk.ask(request, version, FindCoordinatorResponse)
    told = [(one.key, one.error_code, one.error_message, one.node_id) for one in answer.coordinators]
    assert told == [("k", 0, "", 1), ("l", 0, "", 1)]
