"""Handlers that may run long: short ones answer at once, long ones in turn, too long ones are refused."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
import structlog.testing

from broker_lite.apis import slices
from broker_lite.apis.registry import Answer, Context, Registry
from broker_lite.apis.slices import SHORT_UNITS, SLICE_S, Steps
from broker_lite.broker.responses import MAX_UNITS, ResponseChunk
from broker_lite.config.start import TopicAtStart
from broker_lite.errors import ErrorCode, InvalidRequest, Malformed
from broker_lite.wire.codec import decode
from broker_lite.wire.messages.k16_list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tests.support.talk import Talk, talking

LIST = ListGroupsRequest(states_filter=[], types_filter=[])
ROW = ListedGroup(group_id="g", protocol_type="", group_state="", group_type="")
AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path, topics=[TopicAtStart("t", 3, {})]) as talk:
        yield talk


class Rows:
    """Lists `count` groups, each of which takes `units`; counts how often it was begun."""

    def __init__(self, count: int, units: int = 1, seconds: float = 0.0) -> None:
        self.table = Registry()
        self.begun = self.made = 0
        self.closed = False

        @self.table.serves(ListGroupsRequest, versions="0-5")
        def list_groups(ctx: Context, req: ListGroupsRequest) -> Steps[ListGroupsResponse]:
            self.begun += 1
            rows: list[ListedGroup] = []
            try:
                for _ in range(count):
                    yield units
                    until = time.perf_counter() + seconds
                    while time.perf_counter() < until:
                        pass
                    rows.append(ROW)
                    self.made += 1
            finally:
                self.closed = True
            return ListGroupsResponse(groups=rows)

    def ask(self, talk: Talk) -> Answer | Awaitable[Answer]:
        return self.table.answer(talk.broker, talk.facts, talk.frame(LIST, 5))


def read(pieces: Answer) -> ListGroupsResponse:
    assert pieces is not None
    data = b""
    for piece in pieces:
        if isinstance(piece, ResponseChunk):
            data += piece.read(0, len(piece))
            piece.release()
        else:
            assert isinstance(piece, bytes)
            data += piece
    response, end = decode(ListGroupsResponse, 5, memoryview(data), 9)
    assert end == len(data)
    return response


async def test_a_short_one_answers_at_once(talk: Talk) -> None:
    rows = Rows(3)
    answer = rows.ask(talk)
    assert not isinstance(answer, Awaitable)
    assert len(read(answer).groups) == 3
    assert rows.begun == 1


async def test_one_with_much_to_say_is_dropped_and_begun_anew_in_its_turn(talk: Talk) -> None:
    rows = Rows(SHORT_UNITS + 10)
    answer = rows.ask(talk)
    assert isinstance(answer, Awaitable)
    assert rows.closed
    assert rows.made < SHORT_UNITS + 10
    assert len(read(await answer).groups) == SHORT_UNITS + 10
    assert rows.begun == 2
    assert talk.broker.responses.pending == 0


async def test_others_go_on_while_one_takes_long(talk: Talk) -> None:
    rows, seen = Rows(60, seconds=SLICE_S), list[int]()

    async def watch() -> None:
        while rows.made < 60:
            seen.append(rows.made)
            await anyio.lowlevel.checkpoint()

    answer = rows.ask(talk)
    assert isinstance(answer, Awaitable)
    rows.made = 0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        assert len(read(await answer).groups) == 60
    assert len(set(seen)) > 10


async def test_two_long_ones_are_built_one_after_the_other(talk: Talk) -> None:
    first, second = Rows(60, seconds=SLICE_S), Rows(60, seconds=SLICE_S)
    answers: list[ListGroupsResponse] = []

    async def finish(answer: Answer | Awaitable[Answer]) -> None:
        assert isinstance(answer, Awaitable)
        answers.append(read(await answer))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(finish, first.ask(talk))
        tasks.start_soon(finish, second.ask(talk))
        second.begun = 0
        while not answers:
            assert second.begun == 0
            await anyio.lowlevel.checkpoint()
    assert [len(answer.groups) for answer in answers] == [60, 60]


async def test_a_client_that_goes_away_leaves_the_turn(talk: Talk) -> None:
    gone, stays = Rows(10**6, seconds=SLICE_S), Rows(SHORT_UNITS + 10)
    answer = gone.ask(talk)
    assert isinstance(answer, Awaitable)
    with anyio.move_on_after(0.05):
        await answer
    assert gone.closed
    answer = stays.ask(talk)
    assert isinstance(answer, Awaitable)
    assert len(read(await answer).groups) == SHORT_UNITS + 10


async def test_one_that_would_say_too_much_is_refused_before_it_is_built(talk: Talk) -> None:
    rows = Rows(1000, units=MAX_UNITS // 100)
    answer = rows.ask(talk)
    assert isinstance(answer, Awaitable)
    with structlog.testing.capture_logs() as logs:
        response = read(await answer)
        again = rows.ask(talk)
        assert isinstance(again, Awaitable)
        await again
    assert (response.error_code, response.groups) == (ErrorCode.INVALID_REQUEST, [])
    assert rows.made <= 2 * 101
    assert [line["event"] for line in logs] == ["response.too_large"], "it is told once a minute"


async def test_one_with_more_bytes_than_it_said_is_refused_while_it_is_written(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "MAX_BYTES", 10_000)
    answer = Rows(SHORT_UNITS + 10, units=1).ask(talk)
    assert isinstance(answer, Awaitable)
    response = read(await answer)
    assert (response.error_code, response.groups) == (ErrorCode.INVALID_REQUEST, [])


async def test_what_one_refuses_while_it_takes_long_is_told(talk: Talk) -> None:
    table = Registry()

    @table.serves(ListGroupsRequest, versions="0-5")
    def list_groups(ctx: Context, req: ListGroupsRequest) -> Steps[ListGroupsResponse]:
        yield SHORT_UNITS
        yield SHORT_UNITS
        raise InvalidRequest("no")

    answer = table.answer(talk.broker, talk.facts, talk.frame(LIST, 5))
    assert isinstance(answer, Awaitable)
    assert read(await answer).error_code == ErrorCode.INVALID_REQUEST


async def test_a_large_request_is_not_even_decoded_before_its_turn(talk: Talk) -> None:
    rows = Rows(1)
    frame = bytes(talk.frame(LIST, 5)[:-3]) + b"\xff\xff\xff\x7f" + bytes(slices.LARGE_REQUEST)
    answer = rows.table.answer(talk.broker, talk.facts, memoryview(frame))
    assert isinstance(answer, Awaitable)
    with pytest.raises(Malformed):
        await answer
    assert not rows.begun


async def test_a_long_one_behind_the_acls_shows_what_one_may_see(tmp_path: Path) -> None:
    async with talking(tmp_path, settings=AUTHORIZER) as talk:
        answer = Rows(SHORT_UNITS + 10).ask(talk)
        assert isinstance(answer, Awaitable)
        assert read(await answer).groups == []
