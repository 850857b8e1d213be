"""ApiVersions: which APIs and versions a broker speaks."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int16, Int32, Int64, String, message, since, struct


@message(key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest:
    """Who are you? Sent first on every connection."""

    client_software_name: String = since(3, default="", ignorable=True)
    client_software_version: String = since(3, default="", ignorable=True)


@struct
class ApiVersion:
    api_key: Int16
    min_version: Int16
    max_version: Int16


@struct
class SupportedFeatureKey:
    name: String
    min_version: Int16
    max_version: Int16


@struct
class FinalizedFeatureKey:
    name: String
    max_version_level: Int16
    min_version_level: Int16


@message(key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse:
    """Ranges of versions per API, and the features of the cluster."""

    error_code: Int16 = 0
    api_keys: list[ApiVersion]
    throttle_time_ms: Int32 = since(1, default=0)
    supported_features: list[SupportedFeatureKey] = since(3, default=[], tag=0)
    finalized_features_epoch: Int64 = since(3, default=-1, tag=1)
    finalized_features: list[FinalizedFeatureKey] = since(3, default=[], tag=2)
    zk_migration_ready: Bool = since(3, default=False, tag=3)
