"""UpdateFeatures: switch features up and down, all of one request or none.

Versions
    1    the kind of change instead of "may go down"; validate only
    2    no result per feature
"""

from __future__ import annotations

from enum import IntEnum

from broker_lite.apis.registry import Context, serves
from broker_lite.broker.features import METADATA, SUPPORTED
from broker_lite.errors import BrokerError, ErrorCode, refusal
from broker_lite.wire.messages.k57_update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_FIRST_WITH_KINDS = 1


class Change(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@serves(UpdateFeaturesRequest, versions="0-2")
def update_features(ctx: Context, req: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    levels: dict[str, int] = {}
    for update in req.feature_updates:
        try:
            now = levels.get(update.feature, ctx.broker.features_on.level(update.feature))
            levels[update.feature] = _checked(ctx, update, now)
        except BrokerError as error:
            text = "The update failed for all features since the following feature had an error: " + error.message
            return UpdateFeaturesResponse(error_code=error.code, error_message=text)
    if not req.validate_only:
        ctx.broker.features_on.set(levels)
    results = [
        UpdatableFeatureResult(feature=update.feature, error_message=ErrorCode.NONE.name)
        for update in req.feature_updates
    ]
    return UpdateFeaturesResponse(error_message=None, results=results)


def _checked(ctx: Context, update: FeatureUpdateKey, now: int) -> int:
    """The level that is asked for, or the refusal."""
    name, level = update.feature, update.max_version_level
    kind = update.upgrade_type
    if ctx.version < _FIRST_WITH_KINDS:
        kind = Change.SAFE_DOWNGRADE if update.allow_downgrade else Change.UPGRADE
    wrong = ""
    if kind not in list(Change):
        wrong = "The controller does not support the given upgrade type."
    elif level < 0:
        wrong = "A feature version cannot be less than 0."
    elif name not in SUPPORTED:
        wrong = f"Local controller {ctx.broker.node_id} does not support this feature."
    elif not SUPPORTED[name][0] <= level <= SUPPORTED[name][1]:
        low, high = SUPPORTED[name]
        wrong = f"Local controller {ctx.broker.node_id} only supports versions {low}-{high}"
    elif level < now and kind == Change.UPGRADE:
        wrong = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    if wrong:
        raise _refused(f"Invalid update version {level} for feature {name}. {wrong}")
    if name == METADATA and level < now:
        raise _refused(
            f"Unsupported metadata.version downgrade from {now} to {level}. "
            + (
                "Unsafe metadata downgrade is not supported in this version."
                if kind == Change.UNSAFE_DOWNGRADE
                else "Refusing to perform the requested downgrade because it might delete metadata information."
            )
        )
    return level


def _refused(text: str) -> BrokerError:
    return refusal(ErrorCode.INVALID_UPDATE_VERSION, text)
