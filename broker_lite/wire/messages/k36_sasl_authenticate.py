"""SaslAuthenticate: the SASL exchange itself."""

from __future__ import annotations

from broker_lite.wire.schema import Bytes, Int16, Int64, String, message, since


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    """One token of the exchange, from the client."""

    auth_bytes: Bytes


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    """One token of the exchange, from the broker."""

    error_code: Int16 = 0
    error_message: String | None
    auth_bytes: Bytes
    session_lifetime_ms: Int64 = since(1, default=0)
