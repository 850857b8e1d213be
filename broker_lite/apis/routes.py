"""One API as it is served, and one version of it with everything looked up, so that a request looks up once."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from broker_lite.apis.guard import Guard
from broker_lite.apis.rows import ROWS, UNTOUCHED
from broker_lite.config.key import Key
from broker_lite.errors import BrokerError, ErrorCode, refusal
from broker_lite.shapes import dataclass
from broker_lite.wire.headers import request_is_flexible, response_is_flexible

if TYPE_CHECKING:
    from broker_lite.apis.registry import Context

Request = TypeVar("Request")
Handler = Callable[["Context", Request], object]
Refuse = Callable[["Context", Request, BrokerError], object]
Older = Mapping[ErrorCode, tuple[int, ErrorCode]]
"""Code → the first version that knows it, and what to say before."""

_pack_header = struct.Struct(">ii").pack
_pack_flexible_header = struct.Struct(">iix").pack


@dataclass(slots=True)
class Served:
    """One API as we serve it."""

    key: int
    name: str
    versions: range
    advertised: range
    """What ApiVersions says; more than `versions` where clients would misunderstand the truth."""
    request: type
    response: type
    handler: Handler[object]
    refuse: Refuse[object] | None
    older: Older
    unknown_version: Callable[[Context], object] | None
    only_if: Key[bool] | None
    """The setting without which there is no such API."""
    stepwise: bool
    """The handler may take long, and can be interrupted (`slices.py`)."""


@dataclass(slots=True)
class Route:
    """One API at one version, with everything looked up."""

    served: Served
    version: int
    request: type
    response: type
    handler: Handler[object]
    permitted: Handler[object]
    """The handler behind what the ACLs say."""
    older: Older
    flexible: bool
    pack_header: Callable[[int, int], bytes]
    header_size: int
    only_if: Key[bool] | None
    stepwise: bool


def route_of(served: Served, version: int) -> Route:
    flexible = response_is_flexible(served.key, version)
    return Route(
        served=served,
        version=version,
        request=served.request,
        response=served.response,
        handler=served.handler,
        permitted=_permitted(served),
        older=served.older,
        flexible=request_is_flexible(served.key, version),
        pack_header=_pack_flexible_header if flexible else _pack_header,
        header_size=5 if flexible else 4,
        only_if=served.only_if,
        stepwise=served.stepwise,
    )


def _permitted(served: Served) -> Handler[object]:
    """The handler behind the ACLs: it gets what they let through."""
    row, handler, response = ROWS.get(served.key), served.handler, served.response
    may_pass = UNTOUCHED.get(served.key)

    def permitted(ctx: Context, request: object) -> object:
        if may_pass is not None and may_pass(ctx, request):
            return handler(ctx, request)
        if row is None:
            raise refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"nothing says who may ask for {served.name}")
        return row(Guard(ctx, response), request, partial(handler, ctx))

    return permitted
