"""A member that subscribes by a pattern gets what it may see, and nothing that it may not (KIP-848)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_lite.security.acls import Filter, Operation, Resource
from broker_lite.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from broker_lite.wire.messages.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from tests.security.test_visible import SETTINGS, TOPICS, allow
from tests.support.talk import Talk, talking

ANYTHING = ".*"


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path, settings=SETTINGS, topics=TOPICS) as talk:
        talk.facts.principal = "User:alice"
        allow(talk, Operation.READ, "g", Resource.GROUP)
        yield talk


async def beat(talk: Talk, member: str = "m", epoch: int = 0, **more: object) -> ConsumerGroupHeartbeatResponse:
    if epoch == 0:
        more |= {"rebalance_timeout_ms": 5000, "subscribed_topic_regex": ANYTHING, "topic_partitions": []}
    asked = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch, **more)  # type: ignore[arg-type]
    response = await talk.ask(asked, 1, ConsumerGroupHeartbeatResponse)
    assert response.error_code == 0, response.error_message
    return response


def given(talk: Talk, response: ConsumerGroupHeartbeatResponse) -> list[str]:
    assert response.assignment is not None
    names = {topic.id: topic.name for topic in talk.broker.topics}
    return sorted(names[one.topic_id] for one in response.assignment.topic_partitions)  # type: ignore[index]


async def test_a_pattern_fits_only_what_the_member_may_see(talk: Talk) -> None:
    allow(talk, Operation.DESCRIBE)
    assert given(talk, await beat(talk)) == ["mine"]


async def test_who_may_see_nothing_is_given_nothing(talk: Talk) -> None:
    assert given(talk, await beat(talk)) == []


async def test_what_one_may_see_later_comes_with_a_later_heartbeat(talk: Talk) -> None:
    allow(talk, Operation.READ)
    epoch = (await beat(talk)).member_epoch
    allow(talk, Operation.READ, "theirs")
    later = await beat(talk, epoch=epoch)
    assert given(talk, later) == ["mine", "theirs"]


async def test_what_one_may_no_longer_see_is_taken_away(talk: Talk) -> None:
    allow(talk, Operation.READ)
    allow(talk, Operation.READ, "theirs")
    epoch = (await beat(talk)).member_epoch
    talk.broker.acls.remove(Filter(name="theirs"))
    assert given(talk, await beat(talk, epoch=epoch)) == ["mine"]


async def described(talk: Talk) -> list[int]:
    """The error of the group's description. It names topics, and were a hidden one among them it would be refused."""
    asked = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)
    return [one.error_code for one in (await talk.ask(asked, 1, ConsumerGroupDescribeResponse)).groups]


async def test_a_member_that_goes_shows_nothing_to_those_who_stay(talk: Talk) -> None:
    allow(talk, Operation.READ)
    epoch = (await beat(talk, "stays")).member_epoch
    await beat(talk, "goes")
    assert await described(talk) == [0]
    await beat(talk, "goes", epoch=-1)
    assert await described(talk) == [0]
    await beat(talk, "stays", epoch=epoch)
    assert await described(talk) == [0]


async def test_super_users_see_everything(talk: Talk) -> None:
    talk.facts.principal = "User:root"
    assert given(talk, await beat(talk)) == ["mine", "theirs"]
