from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Protocol

import anyio
import pytest
import structlog.testing

from broker_lite import apis
from broker_lite.apis import registry
from broker_lite.apis.registry import NO_REPLY, Context, NoReply, Registry
from broker_lite.apis.routes import Served
from broker_lite.errors import BrokerError, ErrorCode, InvalidRequest, Malformed, ProducerFenced, UnknownMemberId
from broker_lite.wire.codec import decode, encode_bytes
from broker_lite.wire.messages.k00_produce import ProduceRequest, ProduceResponse
from broker_lite.wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from broker_lite.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse
from broker_lite.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from broker_lite.wire.messages.k26_end_txn import EndTxnRequest, EndTxnResponse
from broker_lite.wire.schema import parse_versions
from tests.support.talk import Talk, talking

GOLDEN = Path(__file__).with_name("api_versions.txt")
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path) as talk:
        yield talk


@pytest.fixture
def table() -> Registry:
    return Registry()


async def answer(table: Registry, talk: Talk, frame: bytes | memoryview) -> bytes | None:
    pieces = table.answer(talk.broker, talk.facts, memoryview(frame))
    if isinstance(pieces, Awaitable):
        pieces = await pieces
    return None if pieces is None else b"".join(map(bytes, pieces))  # type: ignore[arg-type]


def test_the_served_versions_are_the_golden_table() -> None:
    """Every promise to clients is one line of this file: a change of it is seen in review."""
    registry.load()
    served = "".join(f"{api.key:>2} {api.name} {_shown(api)}\n" for api in registry.REGISTRY.table())
    assert served == GOLDEN.read_text()


def _shown(api: Served) -> str:
    served, told = api.versions, api.advertised
    text = f"{served[0]}-{served[-1]}"
    return text if served == told else f"{text} (told {told[0]}-{told[-1]})"


def test_the_number_in_a_file_name_is_the_key_it_serves() -> None:
    registry.load()
    files = {int(path.name[1:3]) for folder in apis.__path__ for path in Path(folder).glob("k[0-9][0-9]_*.py")}
    assert files == {api.key for api in registry.REGISTRY.table()}
    for api in registry.REGISTRY.table():
        assert api.handler.__module__.startswith(f"broker_lite.apis.k{api.key:02}_")


def test_an_api_cannot_be_served_twice(table: Registry) -> None:
    table.serves(HeartbeatRequest, versions="0-4")(lambda ctx, req: NO_REPLY)
    with pytest.raises(AssertionError, match="twice"):
        table.serves(HeartbeatRequest, versions="0-4")


def test_a_version_that_is_not_declared_cannot_be_served(table: Registry) -> None:
    with pytest.raises(AssertionError):
        table.serves(HeartbeatRequest, versions="0-9")


@pytest.mark.parametrize("version", range(5))
async def test_a_handler_gets_its_request_and_who_asks(talk: Talk, table: Registry, version: int) -> None:
    heard: list[tuple[Context, HeartbeatRequest]] = []

    @table.serves(HeartbeatRequest, versions="0-4")
    def heartbeat(ctx: Context, req: HeartbeatRequest) -> HeartbeatResponse:
        heard.append((ctx, req))
        return HeartbeatResponse(throttle_time_ms=5)

    reply = await answer(table, talk, talk.frame(BEAT, version))
    ((ctx, req),) = heard
    assert req == BEAT
    assert (ctx.version, ctx.correlation_id, ctx.client_id, ctx.connection) == (version, 7, "test", talk.facts)
    body = encode_bytes(HeartbeatResponse(throttle_time_ms=5), version)
    header = struct.pack(">i", 7) + (b"\0" if version >= 4 else b"")
    assert reply == struct.pack(">i", len(header + body)) + header + body


async def test_a_handler_may_wait(talk: Talk, table: Registry) -> None:
    go = anyio.Event()

    @table.serves(HeartbeatRequest, versions="0-4")
    async def heartbeat(ctx: Context, req: HeartbeatRequest) -> HeartbeatResponse:
        await go.wait()
        return HeartbeatResponse(error_code=27)

    waits = table.answer(talk.broker, talk.facts, talk.frame(BEAT, 1))
    assert isinstance(waits, Awaitable)
    go.set()
    pieces = await waits
    assert pieces is not None
    assert _error(b"".join(map(bytes, pieces)), HeartbeatResponse, 1) == 27  # type: ignore[arg-type]


async def test_a_handler_may_have_nothing_to_say_now_or_later(talk: Talk, table: Registry) -> None:
    async def later() -> NoReply:
        return NO_REPLY

    @table.serves(HeartbeatRequest, versions="0-4")
    def heartbeat(ctx: Context, req: HeartbeatRequest) -> NoReply | Awaitable[NoReply]:
        return NO_REPLY if ctx.version == 0 else later()

    assert await answer(table, talk, talk.frame(BEAT, 0)) is None
    assert await answer(table, talk, talk.frame(BEAT, 1)) is None


@pytest.mark.parametrize("waits", [False, True])
async def test_a_refusal_becomes_the_error_code_of_the_response(talk: Talk, table: Registry, waits: bool) -> None:
    async def later() -> JoinGroupResponse:
        raise UnknownMemberId("who?")

    @table.serves(JoinGroupRequest, versions="0-9")
    def join(ctx: Context, req: JoinGroupRequest) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
        if waits:
            return later()
        raise UnknownMemberId("who?")

    request = JoinGroupRequest(group_id="g", session_timeout_ms=1, member_id="", protocol_type="c", protocols=[])
    for version in range(10):
        reply = await answer(table, talk, talk.frame(request, version))
        assert reply is not None
        assert _error(reply, JoinGroupResponse, version, flexible_from=6) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_an_error_message_goes_where_the_response_has_one(talk: Talk, table: Registry) -> None:
    @table.serves(FindCoordinatorRequest, versions="0-6")
    def find(ctx: Context, req: FindCoordinatorRequest) -> FindCoordinatorResponse:
        raise InvalidRequest("there is nothing like that")

    reply = await answer(table, talk, talk.frame(FindCoordinatorRequest(key="k"), 2))
    assert reply is not None
    response, _ = decode(FindCoordinatorResponse, 2, memoryview(reply), 8)
    assert (response.error_code, response.error_message) == (42, "there is nothing like that")


async def test_an_older_version_is_told_in_words_it_knows(talk: Talk, table: Registry) -> None:
    @table.serves(
        EndTxnRequest,
        versions="0-5",
        older={ErrorCode.PRODUCER_FENCED: (2, ErrorCode.INVALID_PRODUCER_EPOCH)},
    )
    def end(ctx: Context, req: EndTxnRequest) -> EndTxnResponse:
        raise ProducerFenced("epoch 3 is gone, 4 is current")

    request = EndTxnRequest(transactional_id="t", producer_id=1, producer_epoch=3, committed=True)
    told = []
    for version in range(6):
        reply = await answer(table, talk, talk.frame(request, version))
        assert reply is not None
        told.append(_error(reply, EndTxnResponse, version, flexible_from=3))
    assert told == [47, 47, 90, 90, 90, 90]


async def test_where_the_code_sits_elsewhere_refuse_puts_it_there(talk: Talk, table: Registry) -> None:
    def refuse(ctx: Context, req: ProduceRequest, error: BrokerError) -> ProduceResponse:
        return ProduceResponse(responses=[], throttle_time_ms=int(ctx.code(error)))

    @table.serves(ProduceRequest, versions="3-13", refuse=refuse)
    def produce(ctx: Context, req: ProduceRequest) -> ProduceResponse:
        raise InvalidRequest

    reply = await answer(table, talk, talk.frame(ProduceRequest(acks=1, timeout_ms=1, topic_data=[]), 3))
    assert reply is not None
    assert decode(ProduceResponse, 3, memoryview(reply), 8)[0].throttle_time_ms == 42


@pytest.mark.parametrize("waits", [False, True])
async def test_a_bug_is_logged_once_and_answered(talk: Talk, table: Registry, waits: bool) -> None:
    async def later() -> HeartbeatResponse:
        raise ZeroDivisionError

    @table.serves(HeartbeatRequest, versions="0-4")
    def heartbeat(ctx: Context, req: HeartbeatRequest) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
        if waits:
            return later()
        raise ZeroDivisionError

    with structlog.testing.capture_logs() as logs:
        reply = await answer(table, talk, talk.frame(BEAT, 2))
    assert reply is not None
    assert _error(reply, HeartbeatResponse, 2) == ErrorCode.UNKNOWN_SERVER_ERROR
    (line,) = logs
    assert (line["event"], line["api"], line["version"], line["correlation_id"]) == (
        "request.failed",
        "Heartbeat",
        2,
        7,
    )
    assert isinstance(line["exc_info"], ZeroDivisionError)


async def test_a_response_that_cannot_be_written_is_a_bug_too(talk: Talk, table: Registry) -> None:
    @table.serves(HeartbeatRequest, versions="0-4")
    def heartbeat(ctx: Context, req: HeartbeatRequest) -> HeartbeatResponse:
        return HeartbeatResponse(throttle_time_ms=1 << 40)

    with structlog.testing.capture_logs() as logs:
        reply = await answer(table, talk, talk.frame(BEAT, 2))
    assert reply is not None
    assert _error(reply, HeartbeatResponse, 2) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [line["event"] for line in logs] == ["request.failed"]


async def test_what_no_response_can_say_closes_the_connection(talk: Talk, table: Registry) -> None:
    @table.serves(ProduceRequest, versions="3-13")
    def produce(ctx: Context, req: ProduceRequest) -> ProduceResponse:
        raise InvalidRequest("all of it")

    with pytest.raises(Malformed, match="Produce has no place for INVALID_REQUEST: all of it"):
        await answer(table, talk, talk.frame(ProduceRequest(acks=1, timeout_ms=1, topic_data=[]), 3))


async def test_an_unknown_api_or_version_closes_the_connection(talk: Talk, table: Registry) -> None:
    table.serves(HeartbeatRequest, versions="1-4")(lambda ctx, req: HeartbeatResponse())
    for key, version, words in [(999, 0, "999"), (-1, 0, "-1"), (12, 0, "1 to 4"), (12, 5, "1 to 4"), (12, -1, "-1")]:
        with pytest.raises(Malformed, match=words):
            await answer(table, talk, struct.pack(">hhih", key, version, 1, -1) + bytes(100))


async def test_more_may_be_advertised_than_served_and_the_handler_decides(talk: Talk, table: Registry) -> None:
    seen = []

    @table.serves(HeartbeatRequest, versions="3-4", advertise="0-4")
    def heartbeat(ctx: Context, req: HeartbeatRequest) -> HeartbeatResponse:
        seen.append(ctx.version)
        return HeartbeatResponse()

    await answer(table, talk, talk.frame(BEAT, 0))
    assert seen == [0]
    assert table.table()[0].advertised == parse_versions("0-4", 4)


async def test_bytes_after_the_request_are_ignored_as_kafka_does(talk: Talk, table: Registry) -> None:
    table.serves(HeartbeatRequest, versions="0-4")(lambda ctx, req: HeartbeatResponse())
    for version in (0, 4):
        assert await answer(table, talk, bytes(talk.frame(BEAT, version)) + b"more") is not None


async def test_every_shortened_request_is_malformed(talk: Talk, table: Registry) -> None:
    table.serves(HeartbeatRequest, versions="0-4")(lambda ctx, req: HeartbeatResponse())
    for version in (0, 4):
        whole = bytes(talk.frame(BEAT, version))
        for size in range(len(whole)):
            with pytest.raises(Malformed):
                await answer(table, talk, whole[:size])


async def test_tags_in_the_header_are_skipped_and_a_client_without_a_name_is_nameless(
    talk: Talk, table: Registry
) -> None:
    names = []

    @table.serves(HeartbeatRequest, versions="0-4")
    def heartbeat(ctx: Context, req: HeartbeatRequest) -> HeartbeatResponse:
        names.append(ctx.client_id)
        return HeartbeatResponse()

    body = encode_bytes(BEAT, 4)
    tagged = struct.pack(">hhih", 12, 4, 1, -1) + b"\x02" + b"\x00\x01a" + b"\x05\x02bc" + body
    assert await answer(table, talk, tagged) is not None
    assert names == [""]
    with pytest.raises(Malformed):
        await answer(table, talk, struct.pack(">hhih", 12, 4, 1, -1) + b"\xff\xff\xff\xff\x0f" + body)


class Told(Protocol):
    @property
    def error_code(self) -> int: ...


def _error(reply: bytes, kind: type[Told], version: int, flexible_from: int = 4) -> int:
    response, end = decode(kind, version, memoryview(reply), 9 if version >= flexible_from else 8)
    assert end == len(reply)
    return response.error_code
