"""IncrementalAlterConfigs: set, delete, append to and subtract from single keys (KIP-339); log levels too (KIP-412).

Versions
    1    flexible
"""

from __future__ import annotations

import logging
from collections import Counter
from enum import IntEnum
from functools import partial

from broker_lite import logs
from broker_lite.apis.config_resources import Resource, Texts, change, check_node, no_nulls_or_twins, scope_of
from broker_lite.apis.registry import Context, serves
from broker_lite.config.key import Kind, Scope
from broker_lite.config.resources import KEYS
from broker_lite.errors import BrokerError, InvalidConfig, InvalidRequest
from broker_lite.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@serves(IncrementalAlterConfigsRequest, versions="0-1")
def incremental_alter_configs(ctx: Context, req: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    times = Counter((one.resource_type, one.resource_name) for one in req.resources)
    return IncrementalAlterConfigsResponse(
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
        _check_operations(asked.configs)
        if asked.resource_type == Resource.BROKER_LOGGER:
            _set_levels(ctx, asked, validate_only=validate_only)
        else:
            wanted = partial(_changed, scope_of(asked.resource_type), asked.configs)
            change(ctx, asked.resource_type, asked.resource_name, wanted, validate_only=validate_only)
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.message
    return result


def _check_operations(configs: list[AlterableConfig]) -> None:
    no_nulls_or_twins(
        [config.name for config in configs],
        [config.name for config in configs if config.value is None and config.config_operation != Operation.DELETE],
    )
    for config in configs:
        if config.config_operation not in list(Operation):
            raise InvalidRequest(f"Unknown operation {config.config_operation} on {config.name}")


def _changed(scope: Scope, configs: list[AlterableConfig], now: Texts) -> Texts:
    wanted = now
    for config in configs:
        operation, value = Operation(config.config_operation), config.value or ""
        if operation is Operation.DELETE:
            wanted.pop(config.name, None)
        elif operation is Operation.SET:
            wanted[config.name] = value
        else:
            wanted[config.name] = _combined(scope, operation, config.name, value, now.get(config.name))
    return wanted


def _combined(scope: Scope, operation: Operation, name: str, value: str, now: str | None) -> str:
    key = KEYS[scope].get(name)
    if key is None or key.kind is not Kind.LIST:
        raise InvalidConfig(f"Can't {operation.name} to key {name} because its type is not LIST.")
    words = _words(now if now is not None else key.format(key.default) or "")
    said = _words(value)
    if operation is Operation.APPEND:
        return ",".join(dict.fromkeys([*words, *said]))
    return ",".join(word for word in words if word not in said)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")] if text else []


def _set_levels(ctx: Context, asked: AlterConfigsResource, *, validate_only: bool) -> None:
    check_node(ctx, asked.resource_name, "Unexpected node id. Expected {}, but received {}")
    known = logs.loggers()
    for config in asked.configs:
        operation = Operation(config.config_operation)
        if operation in (Operation.APPEND, Operation.SUBTRACT):
            raise InvalidRequest(f"{operation.name} operation is not allowed for the BROKER_LOGGER resource")
        if config.name not in known:
            raise InvalidConfig(f"Logger {config.name} does not exist!")
        if operation is Operation.SET and config.value not in _LEVELS:
            raise InvalidConfig(
                f"Cannot set the log level of {config.name} to {config.value} as it is not a supported log level. "
                f"Valid log levels are {', '.join(sorted(_LEVELS))}"
            )
        if operation is Operation.DELETE and config.name == logs.ROOT:
            raise InvalidRequest("Removing the log level of the root logger is not allowed")
    if not validate_only:
        for config in asked.configs:
            logs.set_level(
                config.name, None if config.config_operation == Operation.DELETE else _LEVELS[config.value or ""]
            )
