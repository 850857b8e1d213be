"""The gate of a listener with SASL: who has not said who it is may say only that.

    STRANGER    may ask ApiVersions, once, and SaslHandshake; anything else is hung up on, unanswered
    TALKING     has chosen a mechanism (SaslHandshake v1) and logs in with SaslAuthenticate; anything else is
                answered with ILLEGAL_SASL_STATE in the words of its own API, and hung up on
    RAW         the same with SaslHandshake v0: frames are bare tokens, and a refusal is silence
    INSIDE      everything passes

A log-in that is good for a time only (`connections.max.reauth.ms`, or a token's own end) is renewed by going through
TALKING again (KIP-368), as the same user by the same mechanism.  When the time is over, only SaslHandshake is heard.

There is one `Gate` for each connection; it stands between the connection and the APIs and answers for itself until
somebody is inside.  Frames are small until then, there are at most `MOST_FRAMES` of them, and the sweeper looks at
`overdue`.  Once a mechanism is chosen a frame is at most as long as its longest message: a longer one ends the
connection when its size is read, so it never takes memory.  A refused log-in waits before it hears so, which makes
guessing slow; the wait counts from its last token, so that it does not tell how long the hashes took, and with that
whether the user exists.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from enum import Enum
from logging import DEBUG
from typing import TYPE_CHECKING

import anyio

from broker_lite.apis.registry import Answer, ConnectionFacts
from broker_lite.broker.threads import in_a_thread
from broker_lite.clock import Clock
from broker_lite.errors import BrokerError, ErrorCode, Malformed, refusal
from broker_lite.logs import get_logger
from broker_lite.security.principals import principal
from broker_lite.security.sasl import AuthenticationFailed, Step
from broker_lite.shapes import dataclass, field
from broker_lite.wire.codec import decode, encode_bytes
from broker_lite.wire.headers import begin_of_body, response_header
from broker_lite.wire.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from broker_lite.wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from broker_lite.security.logins import Login, Mechanisms, Work

log = get_logger(__name__)

HANDSHAKE, API_VERSIONS, AUTHENTICATE = 17, 18, 36
MOST_FRAMES = 10
"""Until somebody is inside."""
_AGAIN_AFTER = 1.0
"""Seconds from one renewal of a log-in to the next, as with Kafka."""
_WORKERS = 2
_ERROR_OF_VERSIONS = slice(8, 10)
"""Where the answer to ApiVersions has its error, in every version: after its size and its number."""
MAX_HEADER = 33_792
"""Bytes around the message in a SaslAuthenticate: most of it is a client id of 32,767."""
_FLEXIBLE = 2
"""The first version of SaslAuthenticate with tagged fields."""
_read_key = struct.Struct(">hhi").unpack_from
_size = struct.Struct(">i").pack

Answerer = Callable[[ConnectionFacts, memoryview], Answer | Awaitable[Answer]]
Refuser = Callable[[ConnectionFacts, memoryview, BrokerError], Answer]


@dataclass(slots=True)
class SaslRules:
    """What a listener with SASL asks for."""

    mechanisms: Mechanisms
    refuse: Refuser
    """The answer of any API that says why it is not given."""
    clock: Clock
    max_receive: int = 524_288
    timeout_ms: int = 10_000
    reauth_ms: int = 0
    failed_delay_ms: int = 100
    workers: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(_WORKERS))
    chosen: dict[tuple[int, bytes], tuple[str, bytes]] = field(default_factory=dict)
    """By the version and the words of a SaslHandshake that was taken: its mechanism and our answer. There are few."""


class State(Enum):
    STRANGER = "stranger"
    TALKING = "talking"
    RAW = "raw"
    INSIDE = "inside"


_TALKING, _RAW, _INSIDE = State.TALKING, State.RAW, State.INSIDE  # as members of the class they take longer to find


class Gate:
    """Called like the APIs. When `failed` says why, the answer it just gave is the last one."""

    __slots__ = (
        "_answer",
        "_asked_versions",
        "_entered",
        "_expires",
        "_frames",
        "_login",
        "_mechanism",
        "_renewable",
        "_renewed",
        "_rules",
        "_since",
        "failed",
        "state",
    )

    def __init__(self, rules: SaslRules, answer: Answerer) -> None:
        self._rules = rules
        self._answer = answer
        self._since = rules.clock.monotonic()
        self._frames = 0
        self._asked_versions = False
        self._mechanism = ""
        self._login: Login | None = None
        self._entered: float | None = None
        """When the last log-in was complete; None before the first."""
        self._expires: float | None = None
        self._renewable = False
        """The client was told when to log in again, and will."""
        self._renewed: float | None = None
        """When it last began to."""
        self.state = State.STRANGER
        self.failed: str | None = None

    @property
    def max_frame(self) -> int | None:
        """The largest frame that is read now; None is what the others may send."""
        if self._entered is not None:
            return None
        most = self._rules.max_receive
        return most if self._login is None else min(most, self._login.max_message + MAX_HEADER)

    @property
    def open_for_ever(self) -> bool:
        return self.state is _INSIDE and not self._renewable

    def overdue(self, now: float) -> bool:
        return self.state is not State.INSIDE and now - self._since > self._rules.timeout_ms / 1000

    def __call__(self, facts: ConnectionFacts, frame: memoryview) -> Answer | Awaitable[Answer]:
        state = self.state
        if state is _INSIDE:
            return self._inside_for_a_time(facts, frame) if self._renewable else self._answer(facts, frame)
        if self.failed is not None:
            raise Malformed("a request after a log-in that was refused")
        self._frames += 1
        if self._frames > MOST_FRAMES:
            raise Malformed(f"more than {MOST_FRAMES} requests before a log-in was complete")
        if state is _RAW:
            return self._raw(facts, frame)
        key, version = self._key(frame)
        if state is _TALKING:
            return self._talk(facts, frame, key, version)
        if key == API_VERSIONS:
            return self._versions(facts, frame)
        if key != HANDSHAKE:
            raise Malformed(f"a request with API key {key} before a log-in: its security.protocol lacks SASL")
        return self._shake(frame, version)

    def _versions(self, facts: ConnectionFacts, frame: memoryview) -> Answer | Awaitable[Answer]:
        """Once, as with Kafka; who was told that he asked in a version which we do not know may ask again."""
        if self._asked_versions:
            raise Malformed("ApiVersions was asked for again before a log-in")
        answer = self._answer(facts, frame)
        if isinstance(answer, list) and isinstance(answer[0], bytes):
            self._asked_versions = answer[0][_ERROR_OF_VERSIONS] == b"\0\0"
        return answer

    def _inside_for_a_time(self, facts: ConnectionFacts, frame: memoryview) -> Answer | Awaitable[Answer]:
        key, version = self._key(frame)
        now = self._rules.clock.monotonic()
        if key == HANDSHAKE and (self._renewed is None or now - self._renewed >= _AGAIN_AFTER):
            self._since, self._frames, self._renewed = now, 1, now
            return self._shake(frame, version)
        if self._expires is not None and now > self._expires:
            raise Malformed("the log-in has expired and was not renewed")
        return self._answer(facts, frame)

    def _key(self, frame: memoryview) -> tuple[int, int]:
        try:
            key, version, _ = _read_key(frame)
        except struct.error:
            raise Malformed(f"a request header is cut short at {len(frame)} bytes") from None
        return key, version

    # ------------------------------------------------------------ choosing a mechanism

    def _shake(self, frame: memoryview, version: int) -> Answer:
        if version not in (0, 1):
            raise Malformed(f"SaslHandshake is served in versions 0 to 1, not {version}")
        number, pos = begin_of_body(frame, flexible=False)
        found = self._rules.chosen.get((version, bytes(frame[pos:]))) or self._choose(frame, pos, version)
        mechanism, body = found
        if mechanism:
            self.state = _TALKING if version else _RAW
            if self._mechanism not in ("", mechanism):
                self._login = None  # refused when it begins
            else:
                self._mechanism = mechanism
                self._login = self._rules.mechanisms.begin(mechanism)
        return _framed(number, body, flexible=False)

    def _choose(self, frame: memoryview, pos: int, version: int) -> tuple[str, bytes]:
        """The mechanism that is asked for, or none, and our answer. What will be asked again is kept."""
        asked, end = decode(SaslHandshakeRequest, version, frame, pos, max_elements=16)
        enabled = self._rules.mechanisms.enabled
        response = SaslHandshakeResponse(mechanisms=list(enabled))
        if asked.mechanism not in enabled:
            response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            self.failed = f"mechanism {asked.mechanism[:64]!r} is not one of {', '.join(enabled)}"
            return "", encode_bytes(response, version)
        found = asked.mechanism, encode_bytes(response, version)
        if end == len(frame):
            self._rules.chosen[version, bytes(frame[pos:])] = found
        return found

    # ------------------------------------------------------------ logging in

    def _talk(self, facts: ConnectionFacts, frame: memoryview, key: int, version: int) -> Answer | Awaitable[Answer]:
        if key != AUTHENTICATE:
            self.failed = f"a request with API key {key} in the middle of a log-in"
            told = "Unexpected request received during SASL authentication: expected SaslAuthenticate"
            return self._rules.refuse(facts, frame, refusal(ErrorCode.ILLEGAL_SASL_STATE, told))
        if not 0 <= version <= 2:
            raise Malformed(f"SaslAuthenticate is served in versions 0 to 2, not {version}")
        number, pos = begin_of_body(frame, flexible=version >= _FLEXIBLE)
        asked, _ = decode(SaslAuthenticateRequest, version, frame, pos, max_elements=16)
        stepped = self._step(facts, asked.auth_bytes)
        if isinstance(stepped, Step):
            return self._stepped(stepped, version, number)
        return self._stepped_later(stepped, version, number)

    def _stepped(self, step: Step, version: int, number: int) -> Answer:
        lifetime = self._lifetime_ms(step) if step.user is not None else 0
        response = SaslAuthenticateResponse(error_message="", auth_bytes=step.token, session_lifetime_ms=lifetime)
        return _framed(number, encode_bytes(response, version), flexible=version >= _FLEXIBLE)

    async def _stepped_later(self, waits: Awaitable[Step], version: int, number: int) -> Answer:
        try:
            return self._stepped(await waits, version, number)
        except AuthenticationFailed as error:
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message=error.told or self._told(),
                auth_bytes=b"",
            )
            return _framed(number, encode_bytes(response, version), flexible=version >= _FLEXIBLE)

    def _raw(self, facts: ConnectionFacts, frame: memoryview) -> Answer | Awaitable[Answer]:
        def framed(step: Step) -> Answer:
            return [_size(len(step.token)) + step.token]

        async def later(waits: Awaitable[Step]) -> Answer:
            try:
                return framed(await waits)
            except AuthenticationFailed:
                return None

        stepped = self._step(facts, frame)
        return framed(stepped) if isinstance(stepped, Step) else later(stepped)

    def _step(self, facts: ConnectionFacts, token: bytes | memoryview) -> Step | Awaitable[Step]:
        """One token further; with the last one the gate is open.

        What takes no time is answered at once: a task for each log-in would cost more than SCRAM itself.
        """
        came = self._rules.clock.monotonic()
        try:
            login = self._login
            if login is None:
                raise AuthenticationFailed(
                    f"a log-in by another mechanism than {self._mechanism}",
                    f"a client may log in again with {self._mechanism} only, by which it logged in first",
                )
            if len(token) > login.max_message:
                raise AuthenticationFailed(f"a message of {len(token)} bytes, the limit is {login.max_message}")
            step: Step | Work = login.respond(bytes(token))
            if not isinstance(step, Step):
                return self._worked(facts, step, came)
            if step.user is not None:
                self._enter(facts, step)
            return step
        except AuthenticationFailed as error:
            why, told = str(error), error.told
        return self._refused(why, told, came)

    async def _worked(self, facts: ConnectionFacts, work: Work, came: float) -> Step:
        """Milliseconds of hashing, beside the loop."""
        step, why, told = await in_a_thread(_outcome, work, limiter=self._rules.workers)
        if step is not None:
            try:
                if step.user is not None:
                    self._enter(facts, step)
                return step
            except AuthenticationFailed as error:
                why, told = str(error), error.told
        return await self._refused(why, told, came)

    async def _refused(self, why: str, told: str | None, came: float) -> Step:
        """Raises it, a while after the token came.

        Only the words are kept meanwhile. An exception holds every frame that it came through, and with them the
        token; raised again from a variable it would hold itself, until the collector came by.
        """
        self._login = None
        clock = self._rules.clock
        await clock.wait(anyio.Event(), max(0.0, came + self._rules.failed_delay_ms / 1000 - clock.monotonic()))
        self.failed = f"{self._mechanism} log-in refused: {why}"
        raise AuthenticationFailed(why, told)

    def _enter(self, facts: ConnectionFacts, step: Step) -> None:
        assert step.user is not None
        who = principal(step.user)
        if self._entered is not None and who != facts.principal:
            raise AuthenticationFailed(
                f"{facts.principal!r} logs in again as {who!r}", "Cannot change principals during re-authentication"
            )
        clock = self._rules.clock
        lifetime = self._lifetime_ms(step)
        facts.principal = who
        self._entered = clock.monotonic()
        # A session ends with its token, too, whether or not `connections.max.reauth.ms` is set.
        self._expires = self._entered + lifetime / 1000 if lifetime else None
        self._renewable = lifetime > 0
        self._login = None
        self.state = _INSIDE
        if log.is_enabled_for(DEBUG):
            who = ascii(who)
            log.debug("connection.authenticated", principal=who, mechanism=self._mechanism, listener=facts.listener)

    def _lifetime_ms(self, step: Step) -> int:
        """How long the log-in is good for, as the client is told; 0 is for ever."""
        ours = self._rules.reauth_ms
        if step.expires_at_ms is None:
            return ours
        left = max(1, step.expires_at_ms - self._rules.clock.now_ms())
        return min(ours, left) if ours else left

    def _told(self) -> str:
        again = "authentication" if self._entered is None else "re-authentication"
        return f"Authentication failed during {again} due to invalid credentials with SASL mechanism {self._mechanism}"


def _outcome(work: Work) -> tuple[Step | None, str, str | None]:
    """Its step, or why there is none and what to tell: a thread keeps the last exception until it is asked again."""
    try:
        return work(), "", None
    except AuthenticationFailed as error:
        return None, str(error), error.told


def _framed(number: int, body: bytes, *, flexible: bool) -> Answer:
    head = response_header(number, flexible=flexible)
    return [_size(len(head) + len(body)) + head + body]
