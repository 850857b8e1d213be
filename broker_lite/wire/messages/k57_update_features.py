"""UpdateFeatures: finalized features."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int8, Int16, Int32, String, field, message, since, struct


@struct
class FeatureUpdateKey:
    feature: String
    max_version_level: Int16
    allow_downgrade: Bool = field(versions="0", default=False)
    upgrade_type: Int8 = since(1, default=1)


@message(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    """Raise or lower these features."""

    timeout_ms: Int32 = 60000
    feature_updates: list[FeatureUpdateKey]
    validate_only: Bool = since(1, default=False)


@struct
class UpdatableFeatureResult:
    feature: String
    error_code: Int16 = 0
    error_message: String | None


@message(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    """Per feature whether it was changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None
    results: list[UpdatableFeatureResult] = field(versions="0-1", default=[])
