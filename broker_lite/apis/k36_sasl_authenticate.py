"""SaslAuthenticate: one token of a log-in. The log-in itself happens before any API is asked (`server/sasl.py`).

Versions
    1    how long the log-in is good for (KIP-368)
    2    flexible
"""

from __future__ import annotations

from broker_lite.apis.registry import Context, serves
from broker_lite.errors import ErrorCode
from broker_lite.wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


@serves(SaslAuthenticateRequest, versions="0-2")
def sasl_authenticate(ctx: Context, req: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Whoever comes here is on a listener without SASL, or is in already."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
    )
