"""Around the ACLs, with every API in every version: what is hidden cannot be told from what is not there.

Whoever has no right to what is hidden asks for it and for what does not exist; but for the name, both answers are the
same bytes.  Asked by their ids or in lists without names, the hidden name is in no answer.  Nothing hidden is changed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.apis.routes import Served
from broker_lite.wire.messages.k75_describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from tests.security.hiding import (
    ABSENT,
    HIDDEN,
    MINE,
    NO_ID,
    TABLE,
    Filling,
    each_api,
    heard,
    hiding,
    kept,
    own,
    topic_id,
)

# ------------------------------------------------------------ the walks


@each_api
async def test_what_is_hidden_looks_like_what_is_not_there(tmp_path: Path, api: Served) -> None:
    async with hiding(tmp_path) as talk:
        talk.facts.principal = "User:nobody"
        before = kept(talk)
        for version in api.versions:
            for kind in (0, 1, 2):
                hidden = await heard(talk, api, version, Filling(HIDDEN, key_type=kind))
                absent = await heard(talk, api, version, Filling(ABSENT, key_type=kind))
                assert hidden.replace(HIDDEN.encode(), ABSENT.encode()) == absent, f"{api.name} v{version}"
        assert kept(talk) == before


@each_api
async def test_what_is_hidden_is_not_named_by_an_id_or_in_a_list(tmp_path: Path, api: Served) -> None:
    """Whether an id exists is told, as Kafka has it: ids are no secret, names are."""
    async with hiding(tmp_path) as talk:
        own(talk)
        before = kept(talk)
        for who in ("User:nobody", "User:alice"):
            talk.facts.principal = who
            for version in api.versions:
                for filling in (
                    Filling("", alone=MINE, topic_id=topic_id(talk)),
                    Filling(MINE, topic_id=topic_id(talk)),
                    Filling(MINE, lists=False),
                ):
                    answer = await heard(talk, api, version, filling)
                    assert HIDDEN.encode() not in answer, f"{api.name} v{version}"
                    assert b"86400001" not in answer
        assert kept(talk) == before


@each_api
async def test_what_is_hidden_stays_so_beside_ones_own(tmp_path: Path, api: Served) -> None:
    """One request for both: what is allowed is done, and of the rest nothing is told."""
    answers: dict[str, list[bytes]] = {}
    for name in (HIDDEN, ABSENT):
        async with hiding(tmp_path / name) as talk:
            own(talk)
            before = kept(talk)
            chance = {topic_id(talk, MINE): NO_ID, talk.broker.cluster_id.encode(): b"cluster"}
            heard_of = answers.setdefault(name, [])
            for version in api.versions:
                answer = await heard(talk, api, version, Filling(name, MINE, alone=MINE))
                for made, always in {**chance, HIDDEN.encode(): ABSENT.encode()}.items():
                    answer = answer.replace(made, always)
                heard_of.append(answer)
                assert kept(talk) == before
    for version, hidden, absent in zip(api.versions, *answers.values(), strict=True):
        assert hidden == absent, f"{api.name} v{version}"


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
async def test_pages_of_topics_turn_over_ones_own_only(tmp_path: Path, limit: int) -> None:
    """The cursor named whichever topic came next."""
    async with hiding(tmp_path) as talk:
        own(talk)
        seen: list[tuple[str | None, int]] = []
        cursor: Cursor | None = None
        while True:
            asked = DescribeTopicPartitionsRequest(topics=[], response_partition_limit=limit, cursor=cursor)
            page = await talk.ask(asked, 0, DescribeTopicPartitionsResponse)
            seen += [(topic.name, part.partition_index) for topic in page.topics for part in topic.partitions]
            if page.next_cursor is None:
                break
            cursor = Cursor(topic_name=page.next_cursor.topic_name, partition_index=page.next_cursor.partition_index)
            assert cursor.topic_name == MINE
        assert seen == [(MINE, 0), (MINE, 1)]
        talk.facts.principal = "User:nobody"
        page = await talk.ask(asked, 0, DescribeTopicPartitionsResponse)
        assert (page.topics, page.next_cursor) == ([], None)


@pytest.mark.parametrize("name", ["OffsetCommit", "TxnOffsetCommit", "OffsetDelete"])
async def test_offsets_of_a_hidden_topic_are_not_changed_in_a_group_of_ones_own(tmp_path: Path, name: str) -> None:
    (api,) = (one for one in TABLE if one.name == name)
    async with hiding(tmp_path) as talk:
        own(talk)
        offsets = talk.broker.groups.of(MINE).offsets
        before = repr(offsets.of(MINE)[HIDDEN])
        assert "41" in before
        for version in api.versions:
            for filling in (Filling(HIDDEN, MINE, alone=MINE), Filling(MINE, topic_id=topic_id(talk))):
                await heard(talk, api, version, filling)
                assert repr(offsets.of(MINE)[HIDDEN]) == before, f"{name} v{version}"
