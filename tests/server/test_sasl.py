"""The gate of a listener with SASL, over real sockets: who gets in, who is told what, who is cut off."""

from __future__ import annotations

import gc
import struct
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import pytest
import structlog

from broker_lite.apis import registry
from broker_lite.clock import Clock, ManualClock, SystemClock
from broker_lite.errors import ErrorCode
from broker_lite.security.logins import Mechanisms
from broker_lite.security.oauth import TokenRules
from broker_lite.security.sasl import AuthenticationFailed, Step
from broker_lite.security.scram import ScramMechanism, new_credential
from broker_lite.server.inbox import Inbox
from broker_lite.server.limits import Budget, Limits
from broker_lite.server.listener import ListenerAddress
from broker_lite.server.sasl import MOST_FRAMES, Gate, SaslRules
from broker_lite.wire.codec import decode, encode_bytes
from broker_lite.wire.headers import request_is_flexible, response_is_flexible
from broker_lite.wire.messages import response_class
from broker_lite.wire.messages.k01_fetch import FetchRequest
from broker_lite.wire.messages.k02_list_offsets import ListOffsetsRequest
from broker_lite.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from broker_lite.wire.messages.k15_describe_groups import DescribeGroupsRequest
from broker_lite.wire.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from broker_lite.wire.messages.k18_api_versions import ApiVersionsRequest
from broker_lite.wire.messages.k20_delete_topics import DeleteTopicsRequest
from broker_lite.wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from broker_lite.wire.schema import spec_of
from tests.security.test_oauth import unsigned
from tests.security.test_scram import final
from tests.server.conftest import Client, Server

Run = Callable[..., Server]
USERS = {"alice": "secret"}


def rules(clock: Clock | None = None, **more: int) -> SaslRules:
    registry.load()
    clock = clock or SystemClock()
    mechanisms = Mechanisms(
        ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"), USERS, lambda mechanism, name: None, TokenRules(clock.now_ms)
    )
    return SaslRules(mechanisms, partial(registry.refuse, None), clock, failed_delay_ms=0, **more)  # type: ignore[arg-type]


def serving(run: Run, clock: Clock | None = None, /, **more: int) -> Server:
    address = ListenerAddress("SASL_PLAINTEXT", "127.0.0.1", 0, sasl=rules(clock, **more))
    return run(clock=clock, listeners=[address])


def listening(run: Run, **more: int) -> Client:
    return serving(run, None, **more).client()


def later(server: Server, clock: ManualClock, seconds: float) -> None:
    server.portal.call(clock.advance, seconds)
    server.turn()


def frame(request: object, version: int) -> bytes:
    key = spec_of(type(request)).key
    assert key is not None
    tags = b"\0" if request_is_flexible(key, version) else b""
    return struct.pack(">hhih", key, version, 7, -1) + tags + encode_bytes(request, version)


def answered(client: Client, request: object, version: int) -> object:
    client.ask(frame(request, version))
    key = spec_of(type(request)).key
    assert key is not None
    reply = memoryview(client.hear())
    start = 5 if response_is_flexible(key, version) else 4
    return decode(response_class(key), version, reply, start)[0]


def shake(client: Client, mechanism: str, version: int = 1) -> SaslHandshakeResponse:
    response = answered(client, SaslHandshakeRequest(mechanism=mechanism), version)
    assert isinstance(response, SaslHandshakeResponse)
    return response


def show(client: Client, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
    response = answered(client, SaslAuthenticateRequest(auth_bytes=token), version)
    assert isinstance(response, SaslAuthenticateResponse)
    return response


def is_inside(client: Client) -> bool:
    """The APIs behind the gate are an echo here."""
    client.ask(b"\x00\x03anything at all")
    return client.hear() == b"\x00\x03anything at all"


def test_a_password_opens_the_gate(run: Run) -> None:
    client = listening(run)
    assert shake(client, "PLAIN").error_code == 0
    assert show(client, b"\0alice\0secret").error_code == 0
    assert is_inside(client)


@pytest.mark.parametrize(
    "token",
    [
        b"\0alice\0wrong",
        b"\0bob\0secret",
        b"\0alice\0",
        b"\0\0secret",
        b"alice",
        b"\xff\0a\0b",
        b"\0alice\0secret\0",
        b"\0\0alice\0secret",
        b"\0alice\0secret\n",
        b"\0ALICE\0secret",
        b"\0alice \0secret",
        b"\0alice\0" + b"secret" * 2000,
    ],
)
def test_a_wrong_password_is_told_and_hung_up_on(run: Run, token: bytes) -> None:
    client = listening(run)
    shake(client, "PLAIN")
    response = show(client, token)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.is_hung_up_on()


def test_who_does_not_exist_hears_what_a_wrong_password_hears(run: Run) -> None:
    told = set()
    for token in (b"\0alice\0wrong", b"\0nobody\0wrong"):
        client = listening(run)
        shake(client, "PLAIN")
        told.add(show(client, token).error_message)
    assert told == {"Authentication failed: Invalid username or password"}


def test_only_handshakes_that_everybody_sends_are_remembered(run: Run) -> None:
    """There is no end of those with something behind them, and each of them is taken."""
    sasl = rules()
    server = run(listeners=[ListenerAddress("SASL_PLAINTEXT", "127.0.0.1", 0, sasl=sasl)])
    for rest in (b"", b"", b"something", b"something else"):
        client = server.client()
        client.ask(frame(SaslHandshakeRequest(mechanism="PLAIN"), 1) + rest)
        assert decode(SaslHandshakeResponse, 1, memoryview(client.hear()), 4)[0].error_code == 0
        assert show(client, b"\0alice\0secret").error_code == 0
    shake(server.client(), "unknown")
    assert len(sasl.chosen) == 1


class Watched(ManualClock):
    """Notes how long somebody wants to wait, and lets him."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    async def wait(self, event: anyio.Event, within: float) -> None:
        self.waits.append(round(within, 3))


async def test_how_long_the_hashes_took_is_not_heard() -> None:
    clock = Watched()

    class Slow:
        max_message = 100

        def respond(self, token: bytes) -> Callable[[], Step]:
            def work() -> Step:
                clock.advance(float(token))
                raise AuthenticationFailed("no")

            return work

    waiting = rules(clock)
    waiting.failed_delay_ms = 100
    waiting.mechanisms.begin = lambda mechanism: Slow()  # type: ignore[method-assign]
    for seconds in (b"0.03", b"0.001", b"0.5"):
        facts = registry.ConnectionFacts(1, "A", ("127.0.0.1", 1), ("127.0.0.1", 2))
        gate = Gate(waiting, registry.answer)  # type: ignore[arg-type]
        gate(facts, memoryview(frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)))
        told = gate(facts, memoryview(frame(SaslAuthenticateRequest(auth_bytes=seconds), 1)))
        assert isinstance(told, Awaitable)
        await told
    assert clock.waits == [0.07, 0.099, 0.0]


def test_somebody_may_not_act_as_another(run: Run) -> None:
    client = listening(run)
    shake(client, "PLAIN")
    assert show(client, b"admin\0alice\0secret").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(("password", "gets_in"), [("secret", True), ("wrong", False)])
def test_scram_takes_two_steps(run: Run, password: str, gets_in: bool) -> None:
    client = listening(run)
    shake(client, "SCRAM-SHA-256")
    bare = "n=alice,r=fyko"
    said = bytes(show(client, f"n,,{bare}".encode()).auth_bytes).decode()
    last = show(client, final(bare, said, password).encode())
    if gets_in:
        assert bytes(last.auth_bytes).startswith(b"v=")
        assert is_inside(client)
    else:
        assert last.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "SCRAM-SHA-256" in (last.error_message or "")
        assert client.is_hung_up_on()


def test_a_token_opens_the_gate_and_a_refused_one_is_explained_first(run: Run) -> None:
    now = SystemClock().now_ms() // 1000
    client = listening(run)
    shake(client, "OAUTHBEARER")
    assert show(client, b"n,,\x01auth=Bearer " + unsigned(sub="alice", exp=now + 60) + b"\x01\x01").error_code == 0
    assert is_inside(client)
    client = listening(run)
    shake(client, "OAUTHBEARER")
    first = show(client, b"n,,\x01auth=Bearer " + unsigned(sub="alice", exp=now - 60) + b"\x01\x01")
    assert (first.error_code, bytes(first.auth_bytes)) == (0, b'{"status":"invalid_token"}')
    assert show(client, b"\x01").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.is_hung_up_on()


def test_the_mechanisms_on_offer_are_told_to_who_asks_for_another(run: Run) -> None:
    client = listening(run)
    response = shake(client, "GSSAPI")
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert response.mechanisms == ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"]
    assert client.is_hung_up_on()


def test_the_versions_may_be_asked_for_before_the_log_in(run: Run) -> None:
    client = listening(run)
    asked = frame(ApiVersionsRequest(), 0)
    client.ask(asked)
    assert client.hear() == asked, "the echo behind the gate"
    assert shake(client, "PLAIN").error_code == 0


def test_the_versions_are_told_once(run: Run) -> None:
    client = listening(run)
    asked = frame(ApiVersionsRequest(), 0)
    client.ask(asked)
    assert client.hear() == asked
    client.ask(asked)
    assert client.is_hung_up_on()


def test_any_other_request_before_the_log_in_is_hung_up_on(run: Run) -> None:
    for request, version in ((MetadataRequest(topics=None), 9), (SaslAuthenticateRequest(auth_bytes=b""), 2)):
        client = listening(run)
        client.ask(frame(request, version))
        assert client.is_hung_up_on()


def test_any_other_request_during_the_log_in_is_refused_in_its_own_words(run: Run) -> None:
    client = listening(run)
    shake(client, "PLAIN")
    response = answered(client, MetadataRequest(topics=None), 13)
    assert isinstance(response, MetadataResponse)
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.is_hung_up_on()


@pytest.mark.parametrize(
    ("asked", "version", "told"),
    [
        (MetadataRequest(topics=None), 12, "00 00000000 01 00 ffffffff 01 00"),
        (MetadataRequest(topics=[]), 1, "00000000 ffffffff 00000000"),
        (FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]), 4, "00000000 00000000"),
        (DescribeGroupsRequest(groups=[]), 0, "00000000"),
        (DeleteTopicsRequest(timeout_ms=1), 1, "00000000 00000000"),
        (ListOffsetsRequest(replica_id=-1, topics=[]), 1, "00000000"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_request_during_the_log_in_that_names_nothing_hears_what_kafka_says(
    run: Run, asked: object, version: int, told: str
) -> None:
    client = listening(run)
    shake(client, "PLAIN")
    client.ask(frame(asked, version))
    assert client.hear()[4:] == bytes.fromhex(told)
    assert client.is_hung_up_on()


def test_bare_tokens_follow_an_old_handshake(run: Run) -> None:
    client = listening(run)
    assert shake(client, "PLAIN", version=0).error_code == 0
    client.ask(b"\0alice\0secret")
    assert client.hear() == b""
    assert is_inside(client)
    client = listening(run)
    shake(client, "PLAIN", version=0)
    client.ask(b"\0alice\0wrong")
    assert client.is_hung_up_on()


def test_a_stranger_sends_small_frames_only(run: Run) -> None:
    client = listening(run, max_receive=1000)
    client.send(struct.pack(">i", 1001))
    assert client.is_hung_up_on()
    client = listening(run, max_receive=1000)
    shake(client, "PLAIN")
    show(client, b"\0alice\0secret")
    client.ask(bytes(5000))
    assert client.hear() == bytes(5000)


def test_a_log_in_does_not_take_for_ever(run: Run) -> None:
    clock = ManualClock(0)
    server = serving(run, clock)
    client = server.client()
    shake(client, "PLAIN")
    later(server, clock, 11)
    assert client.is_hung_up_on()


def test_a_stranger_asks_a_few_times_only(run: Run) -> None:
    client = listening(run)
    # The echo of this number looks like the error of somebody who asks in a version that nobody knows.
    asked = struct.pack(">hhih", 18, 99, ErrorCode.UNSUPPORTED_VERSION << 16, -1)
    for _ in range(MOST_FRAMES):
        client.ask(asked)
        assert client.hear() == asked
    client.ask(asked)
    assert client.is_hung_up_on()


def test_a_log_in_for_a_time_is_renewed_or_ends(run: Run) -> None:
    clock = ManualClock(0)
    server = serving(run, clock, reauth_ms=60_000)
    client = server.client()
    shake(client, "PLAIN")
    assert show(client, b"\0alice\0secret").session_lifetime_ms == 60_000
    later(server, clock, 50)
    assert is_inside(client)
    assert shake(client, "PLAIN").error_code == 0
    assert show(client, b"\0alice\0secret").session_lifetime_ms == 60_000
    later(server, clock, 50)
    assert is_inside(client)
    later(server, clock, 11)
    client.ask(b"\x00\x03\x00\x00\x00\x00\x00\x00")
    assert client.is_hung_up_on()


def test_a_log_in_is_renewed_by_the_same_mechanism_and_user(run: Run) -> None:
    clock = ManualClock(0)
    server = serving(run, clock, reauth_ms=60_000)
    client = server.client()
    shake(client, "PLAIN")
    show(client, b"\0alice\0secret")
    later(server, clock, 2)
    shake(client, "OAUTHBEARER")
    assert show(client, b"x").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.is_hung_up_on()


def test_nobody_becomes_somebody_else_by_renewing_a_log_in(run: Run) -> None:
    clock = ManualClock(0)
    server = serving(run, clock, reauth_ms=60_000)
    client = server.client()
    shake(client, "OAUTHBEARER")
    assert show(client, b"n,,\x01auth=Bearer " + unsigned(sub="alice", exp=3600) + b"\x01\x01").error_code == 0
    later(server, clock, 2)
    shake(client, "OAUTHBEARER")
    refused = show(client, b"n,,\x01auth=Bearer " + unsigned(sub="root", exp=3600) + b"\x01\x01")
    assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "Cannot change principals" in (refused.error_message or "")
    assert client.is_hung_up_on()


def test_a_token_tells_how_long_it_is_good_for_and_may_be_renewed(run: Run) -> None:
    """Also without `connections.max.reauth.ms`; renewals come a second apart at least."""
    clock = ManualClock(0)
    server = serving(run, clock)
    client = server.client()

    def token(until: int) -> bytes:
        return b"n,,\x01auth=Bearer " + unsigned(sub="alice", exp=until) + b"\x01\x01"

    shake(client, "OAUTHBEARER")
    assert show(client, token(60)).session_lifetime_ms == 60_000
    assert is_inside(client)
    shake(client, "OAUTHBEARER")
    assert show(client, token(90)).session_lifetime_ms == 90_000
    too_soon = frame(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    client.ask(too_soon)
    assert client.hear() == too_soon, "it goes to the APIs, which refuse it"
    later(server, clock, 80)
    assert is_inside(client)


@pytest.mark.parametrize("reauth_ms", [0, 3_600_000])
def test_a_session_ends_with_its_token(run: Run, reauth_ms: int) -> None:
    """A token that is good for a minute opened the broker for ever unless `connections.max.reauth.ms` was set."""
    clock = ManualClock(0)
    server = serving(run, clock, reauth_ms=reauth_ms)
    client = server.client()
    shake(client, "OAUTHBEARER")
    token = b"n,,\x01auth=Bearer " + unsigned(sub="alice", exp=60) + b"\x01\x01"
    assert show(client, token).session_lifetime_ms == 60_000
    later(server, clock, 59)
    assert is_inside(client)
    later(server, clock, 2)
    client.ask(b"\x00\x03\x00\x00\x00\x00\x00\x00")
    assert client.is_hung_up_on()


def test_a_user_who_is_deleted_stays_until_the_next_log_in(run: Run) -> None:
    """As with Kafka: what is open stays open, and a renewal is refused like a wrong password."""
    clock = ManualClock(0)
    kept = {"bob": new_credential(ScramMechanism.SHA_256, "secret")}
    sasl = rules(clock, reauth_ms=60_000)
    sasl.mechanisms = Mechanisms(
        ("SCRAM-SHA-256",), {}, lambda mechanism, name: kept.get(name) if mechanism.value == 1 else None
    )
    server = run(clock=clock, listeners=[ListenerAddress("SASL_PLAINTEXT", "127.0.0.1", 0, sasl=sasl)])
    client = server.client()

    def log_in() -> SaslAuthenticateResponse:
        shake(client, "SCRAM-SHA-256")
        said = bytes(show(client, b"n,,n=bob,r=fyko").auth_bytes).decode()
        return show(client, final("n=bob,r=fyko", said, "secret").encode())

    assert log_in().error_code == 0
    del kept["bob"]
    assert is_inside(client)
    later(server, clock, 30)
    refused = log_in()
    assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "re-authentication" in (refused.error_message or "")
    assert client.is_hung_up_on()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
@pytest.mark.parametrize("version", [0, 1])
def test_a_message_beyond_its_mechanism_is_cut_off_when_its_size_is_read(
    run: Run, mechanism: str, version: int
) -> None:
    client = listening(run)
    shake(client, mechanism, version)
    client.send(struct.pack(">i", 131_073))
    assert client.is_hung_up_on()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_a_message_that_is_a_little_too_long_is_told(run: Run, mechanism: str) -> None:
    sasl = rules()
    most = sasl.mechanisms.begin(mechanism).max_message
    client = run(listeners=[ListenerAddress("SASL_PLAINTEXT", "127.0.0.1", 0, sasl=sasl)]).client()
    shake(client, mechanism)
    with structlog.testing.capture_logs() as lines:
        assert show(client, b"x" * (most + 1)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.is_hung_up_on()
    assert [f"of {most + 1} bytes, the limit is {most}" in line["reason"] for line in lines] == [True]


@pytest.mark.parametrize(
    ("mechanism", "token"),
    [
        ("SCRAM-SHA-256", b"n,,n=\xff,r=a"),
        ("SCRAM-SHA-256", b"n,,n=,r=a"),
        ("PLAIN", b"\0alice\0wrong"),
        ("PLAIN", b"\xff"),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer a.b.c\x01\x01"),
        ("OAUTHBEARER", b"\xff"),
    ],
)
async def test_a_log_in_that_is_refused_leaves_nothing_to_collect(mechanism: str, token: bytes) -> None:
    """An exception that is raised again from a variable holds itself, and with its frames the token: 500 KB each, until
    the collector comes by, which counts objects and not bytes."""
    gate = Gate(rules(), registry.answer)  # type: ignore[arg-type]
    facts = registry.ConnectionFacts(1, "A", ("127.0.0.1", 1), ("127.0.0.1", 2))
    gate(facts, memoryview(frame(SaslHandshakeRequest(mechanism=mechanism), 1)))
    gc.collect()
    gc.disable()
    try:
        for said in (token, b"\x01") if mechanism == "OAUTHBEARER" and token != b"\xff" else (token,):
            told = gate(facts, memoryview(frame(SaslAuthenticateRequest(auth_bytes=said), 1)))
            assert isinstance(told, Awaitable)
            await told
        assert gate.failed
        del told
        assert [one for one in gc.get_objects() if isinstance(one, AuthenticationFailed)] == []
    finally:
        gc.enable()


def test_bytes_of_a_log_in_that_waits_count_also_if_they_came_at_once() -> None:
    budget = Budget(100_000)
    inbox = Inbox(memoryview(bytearray(1000)), budget, lambda: None)
    inbox.hold(80_000)
    assert budget.used == 80_000
    inbox.hold(1)
    assert budget.used == 80_000, "it is one request"
    inbox.done()
    assert budget.used == 0


def test_strangers_use_up_no_memory_of_those_who_are_inside(run: Run) -> None:
    clock = ManualClock()  # on which nobody's time is ever over
    address = ListenerAddress("SASL_PLAINTEXT", "127.0.0.1", 0, sasl=rules(clock))
    server = run(limits=Limits(queued_max_request_bytes=400_000), listeners=[address], clock=clock)
    inside = server.client()
    shake(inside, "PLAIN")
    assert show(inside, b"\0alice\0secret").error_code == 0
    strangers = [server.client() for _ in range(20)]
    for stranger in strangers:  # each begins a frame as large as it may be and lets the rest wait
        stranger.send(struct.pack(">i", 524_288) + bytes(50_000))
    large = bytes(300_000)
    inside.ask(large)
    assert inside.hear() == large
    for stranger in strangers:
        stranger.close()
