"""SaslHandshake: choosing how to log in. The log-in itself happens before any API is asked (`server/sasl.py`).

Versions
    0    what follows are bare tokens without a request around them
    1    what follows is SaslAuthenticate
"""

from __future__ import annotations

from broker_lite.apis.registry import Context, serves
from broker_lite.errors import ErrorCode
from broker_lite.wire.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


@serves(SaslHandshakeRequest, versions="0-1")
def sasl_handshake(ctx: Context, req: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Whoever comes here is on a listener without SASL, or is in already."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
