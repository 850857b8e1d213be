"""One socket to one broker: a request goes out, its answer comes in.

The first thing said is ApiVersions; from then on each request is written at the highest version that both sides know.
One request is in flight at a time.  A connection on which a request was cut off halfway, by an error or a
cancellation, cannot tell answers apart any more and is closed.
"""

from __future__ import annotations

import os
import ssl
import struct
from collections.abc import Mapping
from typing import TypeVar

import anyio
from anyio.abc import ByteStream

from broker_lite import __version__
from broker_lite.client.access import Access, Login
from broker_lite.errors import ErrorCode, Malformed, UnsupportedVersion, refusal
from broker_lite.wire.codec import BUDGET, decode, encode_bytes
from broker_lite.wire.headers import RequestHeader, request_header, request_is_flexible, response_is_flexible
from broker_lite.wire.messages import modules
from broker_lite.wire.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from broker_lite.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker_lite.wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from broker_lite.wire.primitives import skip_tags
from broker_lite.wire.schema import spec_of

R = TypeVar("R")

MAX_ANSWER = 512 << 20
"""No broker sends more at once, unless it is something else than a broker."""


class Unreachable(Exception):
    """There is no talking to the broker: it does not listen, does not answer in time or does not speak Kafka."""


class Connection:
    """Use `Connection.open`; then `request` and in the end `close`."""

    def __init__(self, stream: ByteStream, address: str, client_id: str, timeout: float) -> None:
        self.address = address
        self.closed = False
        self.versions: Mapping[int, range] = {}
        """API key -> the versions that both sides know."""
        self.offered: dict[int, tuple[int, int]] = {}
        """API key -> lowest and highest version, as the broker says."""
        self._stream = stream
        self._client_id = client_id
        self._timeout = timeout
        self._hint = ""
        """Added when it hangs up on us for no reason that we know."""
        self._lock = anyio.Lock()
        self._correlation_id = 0
        self._received = bytearray()

    @classmethod
    async def open(
        cls, host: str, port: int, *, client_id: str, timeout: float, access: Access | None = None
    ) -> Connection:
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            with anyio.fail_after(timeout):
                stream = await _connect(host, port, access)
        except TimeoutError:
            raise Unreachable(f"{address} did not take the connection within {timeout:g} s") from None
        except (OSError, UnicodeError) as error:  # the latter for what cannot be a name
            raise Unreachable(f"cannot connect to {address}: {_reason(error)}") from None
        except (anyio.EndOfStream, anyio.BrokenResourceError):  # in the middle of a handshake
            raise Unreachable(f"cannot connect to {address}: {_NO_TLS}") from None
        connection = cls(stream, address, client_id, timeout)
        if access is None:
            connection._hint = "; if it wants TLS or a log-in, say so in the file of --command-config"
        try:
            await connection._negotiate()
            if access is not None and access.login is not None:
                await connection._log_in(access.login)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await connection.close()
            raise
        return connection

    async def _negotiate(self) -> None:
        mine = spec_of(ApiVersionsRequest).versions
        ask = ApiVersionsRequest(client_software_name="broker-lite", client_software_version=__version__)
        body = await self._exchange(ask, 18, mine[-1], self._timeout)
        version = mine[-1]
        if body[:2] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
            # A broker that does not know our version says so in the oldest form (KIP-511).
            body, version = await self._exchange(ApiVersionsRequest(), 18, 0, self._timeout), 0
        answer, _ = await self._read(ApiVersionsResponse, version, body)
        if answer.error_code:
            raise Unreachable(f"{self.address} refused ApiVersions: {_name(answer.error_code)}")
        self.offered = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        known = modules()
        self.versions = {
            key: range(low, high + 1) for key, (low, high) in self.offered.items() if key in known and low <= high
        }

    async def _log_in(self, login: Login) -> None:
        """SaslHandshake, then SaslAuthenticate as often as the mechanism takes. SaslAuthenticationFailed if refused."""
        chosen = await self.request(SaslHandshakeRequest(mechanism=login.mechanism), SaslHandshakeResponse)
        if chosen.error_code:
            offered = ", ".join(chosen.mechanisms)
            raise refusal(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"{self.address} takes {offered}, not {login.mechanism}"
            )
        exchange = login.begin()
        said = next(exchange)
        while True:
            answer = await self.request(SaslAuthenticateRequest(auth_bytes=said), SaslAuthenticateResponse)
            if answer.error_code:
                raise refusal(ErrorCode.SASL_AUTHENTICATION_FAILED, answer.error_message or "the log-in was refused")
            try:
                said = exchange.send(bytes(answer.auth_bytes))
            except StopIteration:
                return

    def version_for(self, request: type, at_most: int | None = None) -> int:
        """The highest version of `request` that both sides know. UnsupportedVersion if there is none."""
        spec = spec_of(request)
        assert spec.key is not None, f"{request.__name__} is not a request"
        theirs = self.versions.get(spec.key, range(0))
        high = min(theirs.stop - 1, spec.versions[-1], 32767 if at_most is None else at_most)
        if high < theirs.start or high < spec.versions[0]:
            raise UnsupportedVersion(f"{self.address} does not speak {request.__name__} at a version that we know")
        return high

    async def request(
        self, message: object, answer: type[R], *, at_most: int | None = None, within: float | None = None
    ) -> R:
        """Send `message` and return its answer.  Unreachable if it does not come within `within` seconds."""
        version = self.version_for(type(message), at_most)
        body = await self._exchange(message, spec_of(type(message)).key or 0, version, within or self._timeout)
        response, end = await self._read(answer, version, body)
        assert end == len(body), f"{answer.__name__} v{version} ends at {end} of {len(body)} bytes"
        return response

    async def _read(self, answer: type[R], version: int, body: memoryview) -> tuple[R, int]:
        try:
            # We asked for it, and its size is bounded: Metadata of 200,000 partitions has a million elements.
            return decode(answer, version, body, max_elements=max(BUDGET, len(body)))
        except Malformed as error:
            await self.close()
            raise Unreachable(f"{self.address} sent an answer that cannot be read: {error}") from None

    async def send(self, message: object, *, at_most: int | None = None) -> None:
        """Send `message`, which gets no answer (Produce with acks=0)."""
        version = self.version_for(type(message), at_most)
        async with self._lock:
            await self._write(message, spec_of(type(message)).key or 0, version, self._timeout)

    async def _exchange(self, message: object, key: int, version: int, within: float) -> memoryview:
        async with self._lock:
            number = await self._write(message, key, version, within)
            try:
                with anyio.fail_after(within):
                    frame = await self._read_frame()
            except TimeoutError:
                await self.close()
                raise Unreachable(f"{self.address} did not answer {type(message).__name__} in {within:g} s") from None
            except (OSError, anyio.EndOfStream, anyio.BrokenResourceError) as error:
                await self.close()
                why = _tls_reason(error) or self._hint
                raise Unreachable(f"{self.address} closed the connection on {type(message).__name__}{why}") from error
            except BaseException:
                self.closed = True
                with anyio.CancelScope(shield=True):
                    await self._stream.aclose()
                raise
        if len(frame) < 4 or int.from_bytes(frame[:4], "big", signed=True) != number:
            await self.close()
            raise Unreachable(f"{self.address} answered another question than {type(message).__name__}")
        if not response_is_flexible(key, version):
            return frame[4:]
        try:
            return frame[skip_tags(frame, 5, frame[4]) :]
        except (IndexError, Malformed):
            await self.close()
            raise Unreachable(f"{self.address} sent an answer whose header cannot be read") from None

    async def _write(self, message: object, key: int, version: int, within: float) -> int:
        if self.closed:
            raise Unreachable(f"the connection to {self.address} is closed")
        self._correlation_id = number = (self._correlation_id + 1) & 0x7FFFFFFF
        head = request_header(
            RequestHeader(key, version, number, self._client_id), flexible=request_is_flexible(key, version)
        )
        body = encode_bytes(message, version)
        try:
            with anyio.fail_after(within):
                await self._stream.send(struct.pack(">i", len(head) + len(body)) + head + body)
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, TimeoutError) as error:
            await self.close()
            raise Unreachable(f"{self.address} closed the connection on {type(message).__name__}") from error
        except BaseException:
            self.closed = True
            with anyio.CancelScope(shield=True):
                await self._stream.aclose()
            raise
        return number

    async def _read_frame(self) -> memoryview:
        while len(self._received) < 4:
            self._received += await self._stream.receive()
        size = int.from_bytes(self._received[:4], "big", signed=True)
        if not 4 <= size <= MAX_ANSWER:
            raise BrokenAnswer(f"an answer of {size} bytes")
        while len(self._received) < 4 + size:
            self._received += await self._stream.receive(1 << 20)
        frame = bytes(memoryview(self._received)[4 : 4 + size])
        del self._received[: 4 + size]
        return memoryview(frame)

    async def close(self) -> None:
        self.closed = True
        await self._stream.aclose()


class BrokenAnswer(OSError):
    """The other side does not speak Kafka."""


async def _connect(host: str, port: int, access: Access | None) -> ByteStream:
    if access is None or access.tls is None:
        return await anyio.connect_tcp(host, port)
    name = host if access.tls.check_hostname else None
    return await anyio.connect_tcp(host, port, ssl_context=access.tls, tls_hostname=name, tls_standard_compatible=False)


def _reason(error: BaseException) -> str:
    """The system's word for it, also where several addresses were tried."""
    if isinstance(error.__cause__, BaseExceptionGroup):
        error = error.__cause__.exceptions[0]
    elif isinstance(error.__cause__, OSError):
        error = error.__cause__
    if isinstance(error, ssl.SSLError):
        return _tls_reason(error).removeprefix(": ")
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__


_NO_TLS = "it does not speak TLS: use security.protocol=PLAINTEXT or SASL_PLAINTEXT"
_TLS_REASONS = {
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "RECORD_LAYER_FAILURE": _NO_TLS,
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants to see a certificate: name one in ssl.keystore.location",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it wants another version of TLS, or to see a certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust our certificate (ssl.keystore.location)",
}


def _tls_reason(error: BaseException | None) -> str:
    """What TLS had against it, if it was that."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    if error is None:
        return ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f": its certificate is not to be trusted: {error.verify_message} (ssl.truststore.location says whom to)"
    return f": {_TLS_REASONS.get(error.reason or '', error.reason or str(error))}"


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
