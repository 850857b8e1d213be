"""AlterConfigs: replace everything that is set for a resource. IncrementalAlterConfigs (44) took its place.

Versions
    2    flexible
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from broker_lite.apis.config_resources import Texts, change, no_nulls_or_twins
from broker_lite.apis.registry import Context, serves
from broker_lite.errors import BrokerError, InvalidRequest
from broker_lite.wire.messages.k33_alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@serves(AlterConfigsRequest, versions="0-2")
def alter_configs(ctx: Context, req: AlterConfigsRequest) -> AlterConfigsResponse:
    times = Counter((one.resource_type, one.resource_name) for one in req.resources)
    return AlterConfigsResponse(
        responses=[
            _alter(ctx, one, times[one.resource_type, one.resource_name], validate_only=req.validate_only)
            for one in req.resources
        ]
    )


def _alter(
    ctx: Context, asked: AlterConfigsResource, times: int, *, validate_only: bool
) -> AlterConfigsResourceResponse:
    result = AlterConfigsResourceResponse(
        error_message=None, resource_type=asked.resource_type, resource_name=asked.resource_name
    )
    try:
        if times > 1:
            raise InvalidRequest("Each resource must appear at most once.")
        no_nulls_or_twins(
            [config.name for config in asked.configs], [config.name for config in asked.configs if config.value is None]
        )
        wanted = partial(_all, asked.configs)
        change(ctx, asked.resource_type, asked.resource_name, wanted, validate_only=validate_only)
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.message
    return result


def _all(configs: list[AlterableConfig], now: Texts) -> Texts:
    return {config.name: config.value or "" for config in configs}
