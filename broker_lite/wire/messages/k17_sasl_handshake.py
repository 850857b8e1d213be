"""SaslHandshake: choosing a SASL mechanism."""

from __future__ import annotations

from broker_lite.wire.schema import Int16, String, message


@message(key=17, versions="0-1")
class SaslHandshakeRequest:
    """The client wants to log in with this mechanism."""

    mechanism: String


@message(key=17, versions="0-1")
class SaslHandshakeResponse:
    """The mechanisms on offer."""

    error_code: Int16 = 0
    mechanisms: list[String]
