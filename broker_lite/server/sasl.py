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
`overdue`.  A refused log-in waits before it hears so, which makes guessing slow; the wait counts from its last token,
so that it does not tell how long the hashes took, and with that whether the user exists.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from broker_lite.apis.registry import Answer, ConnectionFacts
from broker_lite.clock import Clock
from broker_lite.errors import BrokerError, ErrorCode, Malformed, refusal
from broker_lite.logs import get_logger
from broker_lite.security.principals import principal
from broker_lite.security.sasl import AuthenticationFailed, Step
from broker_lite.shapes import dataclass, field
from broker_lite.wire.codec import decode, encode_bytes
from broker_lite.wire.headers import read_request_header, request_is_flexible, response_header, response_is_flexible
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
_read_key = struct.Struct(">hhi").unpack_from

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


class State(Enum):
    STRANGER = "stranger"
    TALKING = "talking"
    RAW = "raw"
    INSIDE = "inside"


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
        return self._rules.max_receive if self._entered is None else None

    @property
    def open_for_ever(self) -> bool:
        return self.state is State.INSIDE and not self._renewable

    def overdue(self, now: float) -> bool:
        return self.state is not State.INSIDE and now - self._since > self._rules.timeout_ms / 1000

    def __call__(self, facts: ConnectionFacts, frame: memoryview) -> Answer | Awaitable[Answer]:
        if self.state is State.INSIDE:
            return self._inside_for_a_time(facts, frame) if self._renewable else self._answer(facts, frame)
        if self.failed is not None:
            raise Malformed("a request after a log-in that was refused")
        self._frames += 1
        if self._frames > MOST_FRAMES:
            raise Malformed(f"more than {MOST_FRAMES} requests before a log-in was complete")
        if self.state is State.RAW:
            return self._raw(facts, frame)
        key, version = self._key(frame)
        if self.state is State.TALKING:
            return self._talk(facts, frame, key)
        if key == API_VERSIONS:
            return self._versions(facts, frame)
        if key != HANDSHAKE:
            raise Malformed(f"a request with API key {key} before a log-in: its security.protocol lacks SASL")
        return self._shake(facts, frame, version)

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
            return self._shake(facts, frame, version)
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

    def _shake(self, facts: ConnectionFacts, frame: memoryview, version: int) -> Answer:
        if version not in (0, 1):
            raise Malformed(f"SaslHandshake is served in versions 0 to 1, not {version}")
        header, pos = read_request_header(frame, request_is_flexible)
        asked, _ = decode(SaslHandshakeRequest, version, frame, pos, max_elements=16)
        enabled = self._rules.mechanisms.enabled
        response = SaslHandshakeResponse(mechanisms=list(enabled))
        if asked.mechanism in enabled:
            self.state = State.TALKING if version else State.RAW
            if self._mechanism not in ("", asked.mechanism):
                self._login = None  # refused when it begins
            else:
                self._mechanism = asked.mechanism
                self._login = self._rules.mechanisms.begin(asked.mechanism)
        else:
            response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            self.failed = f"mechanism {asked.mechanism[:64]!r} is not one of {', '.join(enabled)}"
        return _framed(HANDSHAKE, version, header.correlation_id, encode_bytes(response, version))

    # ------------------------------------------------------------ logging in

    def _talk(self, facts: ConnectionFacts, frame: memoryview, key: int) -> Answer | Awaitable[Answer]:
        if key != AUTHENTICATE:
            self.failed = f"a request with API key {key} in the middle of a log-in"
            told = "Unexpected request received during SASL authentication: expected SaslAuthenticate"
            return self._rules.refuse(facts, frame, refusal(ErrorCode.ILLEGAL_SASL_STATE, told))
        header, pos = read_request_header(frame, request_is_flexible)
        version = header.api_version
        if not 0 <= version <= 2:
            raise Malformed(f"SaslAuthenticate is served in versions 0 to 2, not {version}")
        asked, _ = decode(SaslAuthenticateRequest, version, frame, pos, max_elements=16)
        return self._authenticate(facts, bytes(asked.auth_bytes), version, header.correlation_id)

    def _authenticate(
        self, facts: ConnectionFacts, token: bytes, version: int, correlation_id: int
    ) -> Answer | Awaitable[Answer]:
        stepped = self._step(facts, token)
        if isinstance(stepped, Step):
            return self._stepped(stepped, version, correlation_id)
        return self._stepped_later(stepped, version, correlation_id)

    def _stepped(self, step: Step, version: int, correlation_id: int) -> Answer:
        lifetime = self._lifetime_ms(step) if step.user is not None else 0
        response = SaslAuthenticateResponse(error_message="", auth_bytes=step.token, session_lifetime_ms=lifetime)
        return _framed(AUTHENTICATE, version, correlation_id, encode_bytes(response, version))

    async def _stepped_later(self, waits: Awaitable[Step], version: int, correlation_id: int) -> Answer:
        try:
            return self._stepped(await waits, version, correlation_id)
        except AuthenticationFailed as error:
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message=error.told or self._told(),
                auth_bytes=b"",
            )
            return _framed(AUTHENTICATE, version, correlation_id, encode_bytes(response, version))

    def _raw(self, facts: ConnectionFacts, frame: memoryview) -> Answer | Awaitable[Answer]:
        def framed(step: Step) -> Answer:
            return [struct.pack(">i", len(step.token)) + step.token]

        async def later(waits: Awaitable[Step]) -> Answer:
            try:
                return framed(await waits)
            except AuthenticationFailed:
                return None

        stepped = self._step(facts, bytes(frame))
        return framed(stepped) if isinstance(stepped, Step) else later(stepped)

    def _step(self, facts: ConnectionFacts, token: bytes) -> Step | Awaitable[Step]:
        """One token further; with the last one the gate is open.

        What takes no time is answered at once: a task for each log-in would cost more than SCRAM itself.
        """
        came = self._rules.clock.monotonic()
        try:
            if self._login is None:
                raise AuthenticationFailed(
                    f"a log-in by another mechanism than {self._mechanism}",
                    f"a client may log in again with {self._mechanism} only, by which it logged in first",
                )
            step: Step | Work = self._login.respond(token)
            if not isinstance(step, Step):
                return self._worked(facts, step, came)
            if step.user is not None:
                self._enter(facts, step)
        except AuthenticationFailed as error:
            return self._refused(error, came)
        return step

    async def _worked(self, facts: ConnectionFacts, work: Work, came: float) -> Step:
        """Milliseconds of hashing, beside the loop."""
        try:
            step = await anyio.to_thread.run_sync(work, limiter=self._rules.workers)
            if step.user is not None:
                self._enter(facts, step)
        except AuthenticationFailed as error:
            return await self._refused(error, came)
        return step

    async def _refused(self, error: AuthenticationFailed, came: float) -> Step:
        """Raises it, a while after the token came."""
        clock = self._rules.clock
        await clock.wait(anyio.Event(), max(0.0, came + self._rules.failed_delay_ms / 1000 - clock.monotonic()))
        self.failed = f"{self._mechanism} log-in refused: {error}"
        raise error

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
        # Clients renew a token that ends when they hear of it; as with Kafka only `connections.max.reauth.ms` insists.
        self._expires = self._entered + lifetime / 1000 if self._rules.reauth_ms else None
        self._renewable = lifetime > 0
        self._login = None
        self.state = State.INSIDE
        log.debug("connection.authenticated", principal=ascii(who), mechanism=self._mechanism, listener=facts.listener)

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


def _framed(key: int, version: int, correlation_id: int, body: bytes) -> Answer:
    head = response_header(correlation_id, flexible=response_is_flexible(key, version))
    return [struct.pack(">i", len(head) + len(body)) + head + body]
