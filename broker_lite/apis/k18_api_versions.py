"""ApiVersions: which APIs and versions we speak, and which features are on.

Versions
    any  a version we do not know is answered in the words of v0 with UNSUPPORTED_VERSION and our range (KIP-511)
    3    flexible, but the response header never is; the client says what software it is (INVALID_REQUEST if unreadable)
    3    supported features, without those whose lowest level is 0: older Java clients fail on them
    4    all supported features
"""

from __future__ import annotations

import re

from broker_lite.apis.registry import REGISTRY, Context, serves
from broker_lite.errors import ErrorCode, InvalidRequest
from broker_lite.wire.messages.k18_api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

KEY = 18
_FIRST_WITH_SOFTWARE = 3
_FIRST_WITH_LEVEL_ZERO = 4
MAX_SOFTWARE = 256
"""Characters of a name and of a version that are kept, for as long as the connection is."""
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def _unknown_version(ctx: Context) -> ApiVersionsResponse:
    ours = [one for one in _api_keys(ctx) if one.api_key == KEY]
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=ours)


@serves(ApiVersionsRequest, versions="0-4", unknown_version=_unknown_version)
def api_versions(ctx: Context, req: ApiVersionsRequest) -> ApiVersionsResponse:
    if ctx.version >= _FIRST_WITH_SOFTWARE:
        for said in (req.client_software_name, req.client_software_version):
            if not _SOFTWARE.fullmatch(said):
                raise InvalidRequest(f"{said[:64]!r} is neither a name nor a version of software")
        ctx.connection.client_software_name = req.client_software_name[:MAX_SOFTWARE]
        ctx.connection.client_software_version = req.client_software_version[:MAX_SOFTWARE]
    features = ctx.broker.features()
    return ApiVersionsResponse(
        api_keys=_api_keys(ctx),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, lowest, highest in features.supported
            if lowest > 0 or ctx.version >= _FIRST_WITH_LEVEL_ZERO
        ],
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in features.finalized
        ],
        finalized_features_epoch=features.epoch,
    )


def _api_keys(ctx: Context) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=api.key, min_version=api.advertised[0], max_version=api.advertised[-1])
        for api in REGISTRY.offered(ctx.broker)
    ]
