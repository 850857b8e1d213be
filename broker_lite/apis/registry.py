"""Which API is served by whom, and the way of every request: frame → request → handler → response → pieces.

A handler is a function with `@serves` in a file of its own, `kNN_name.py`; `load` imports them all. A plain `def`
answers at once and costs no task switch; it may also return something to wait for, and an `async def` does so
always. A generator is a handler that may run long, and lets others go on (`slices.py`).

A handler answers with a response or raises. Of what it raises

    a refusal (`BrokerError`)   becomes what `refuse` makes of it, or the response's `error_code`, or that of every
                                part that was asked for (`mirror.py`);
                                a code that older versions do not know is put in their words by `older`
    `Malformed`                 closes the connection, as Kafka does for what it cannot answer
    anything else               is a bug: logged once, answered with UNKNOWN_SERVER_ERROR, and the connection lives on

With ACLs a row of `rows.py` is asked before the handler; without, that costs nothing.

An unknown API or version closes the connection too; only ApiVersions has an answer to that (`unknown_version`).
Bytes after the end of a request are ignored. Both is what Kafka does.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, NamedTuple, cast

from broker_lite.apis import mirror, watch
from broker_lite.apis.replies import NO_REPLY as NO_REPLY
from broker_lite.apis.replies import Answer as Answer
from broker_lite.apis.replies import NoPlace, awaited, in_turn, large, later, now, refused, reply, written
from broker_lite.apis.replies import NoReply as NoReply
from broker_lite.apis.routes import Handler, Older, Refuse, Request, Route, Served, route_of
from broker_lite.apis.slices import LARGE_REQUEST, TakesLong, in_slices, is_stepwise
from broker_lite.config.key import Key
from broker_lite.errors import BrokerError, ErrorCode, Malformed
from broker_lite.shapes import dataclass
from broker_lite.wire.codec import Piece, decode
from broker_lite.wire.headers import read_request_header, request_is_flexible
from broker_lite.wire.messages import response_class
from broker_lite.wire.primitives import skip_tags
from broker_lite.wire.schema import parse_versions, spec_of

if TYPE_CHECKING:
    from broker_lite.broker.broker import Broker
    from broker_lite.security.acls import Allowed

FEW_ELEMENTS = 1000
"""Array elements in a request of somebody who has not logged in."""
_read_header = struct.Struct(">hhih").unpack_from


@dataclass(slots=True)
class ConnectionFacts:
    """What is known of who is asking."""

    id: int
    listener: str
    peer: tuple[str, int]
    local: tuple[str, int]
    principal: str = "User:ANONYMOUS"
    client_software_name: str = ""
    client_software_version: str = ""
    muted_until: float = 0.0
    """Seconds on the clock that never jumps: nothing is done for this connection before."""
    writable: Allowed | None = None
    """Topics that it was allowed to write to, where ACLs are on."""


class Node(NamedTuple):
    """A broker as a client should see it."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(slots=True)
class Context:
    """What a handler knows beside its request."""

    broker: Broker
    connection: ConnectionFacts
    version: int
    correlation_id: int
    client_id: str
    """Empty if the client did not say, as in Kafka."""
    older: Older
    size: int = 0
    """Of the request in bytes; this and the next three only while somebody measures."""
    started: float = 0.0
    busy: float = 0.0
    """Seconds that the loop had to do with it."""
    owed: float = 0.0
    """Seconds of silence."""
    kept: list[Piece] | None = None
    """The response's bytes, where a handler has them already."""
    has_turn: bool = False
    """This request may take long: its handler runs in slices."""

    def advertised(self) -> Node:
        """This broker, at the address that this client can reach."""
        broker, connection = self.broker, self.connection
        host, port = broker.advertised(connection.listener, connection.local)
        return Node(broker.node_id, host, port, broker.rack)

    def code(self, error: BrokerError) -> ErrorCode:
        """The error's code in the words of the client's version."""
        since, before = self.older.get(error.code, (0, error.code))
        return error.code if self.version >= since else before


class Registry:
    def __init__(self) -> None:
        self._served: dict[int, Served] = {}
        self._routes: dict[tuple[int, int], Route] = {}

    def serves(
        self,
        request: type[Request],
        *,
        versions: str,
        advertise: str | None = None,
        older: Older | None = None,
        refuse: Refuse[Request] | None = None,
        unknown_version: Callable[[Context], object] | None = None,
        only_if: Key[bool] | None = None,
        stepwise: bool = False,
    ) -> Callable[[Callable[[Context, Request], object]], Callable[[Context, Request], object]]:
        """Declare the handler of an API. It gets the advertised versions too and says itself what it thinks of them.

        A generator is `stepwise`; a function that returns one where the request is not small has to say so.
        """
        known, key = spec_of(request).versions, spec_of(request).key
        assert key is not None, f"{request.__name__} has no key"
        assert key not in self._served, f"{request.__name__} is served twice"
        served_versions = parse_versions(versions, known[-1])
        advertised = parse_versions(advertise or versions, known[-1])
        assert {*served_versions, *advertised} <= set(known), f"{request.__name__} is declared for {known} only"

        def register(handler: Callable[[Context, Request], object]) -> Callable[[Context, Request], object]:
            steps = stepwise or is_stepwise(handler)
            runs = in_slices(handler) if steps else handler
            served = self._served[key] = Served(
                key=key,
                name=request.__name__.removesuffix("Request"),
                versions=served_versions,
                advertised=advertised,
                request=request,
                response=response_class(key),
                handler=cast("Handler[object]", runs),
                refuse=cast("Refuse[object] | None", refuse),
                older=older or {},
                unknown_version=unknown_version,
                only_if=only_if,
                stepwise=steps,
            )
            for version in {*served_versions, *advertised}:
                self._routes[key, version] = route_of(served, version)
            return handler

        return register

    def offered(self, broker: Broker) -> list[Served]:
        """Every API that this broker serves, by key."""
        return [one for one in self.table() if one.only_if is None or broker.settings.get(one.only_if)]

    def table(self) -> list[Served]:
        """Every API there is, by key."""
        return [self._served[key] for key in sorted(self._served)]

    def answer(self, broker: Broker, connection: ConnectionFacts, frame: memoryview) -> Answer | Awaitable[Answer]:
        """The reply to one frame, or something to wait for that gives it. Malformed: close the connection."""
        # Written out here and once more in `refuse`: a call less for every request.
        try:
            key, version, correlation_id, length = _read_header(frame)
            pos = 10 + length if length > 0 else 10
            if pos > len(frame):
                raise Malformed(f"the client id claims {length} bytes, {len(frame) - 10} are left")
            client_id = frame[10:pos].tobytes().decode("utf-8", "replace") if length > 0 else ""
            route = self._routes.get((key, version))
            if route is None:
                return self._unknown(broker, connection, key, version, correlation_id, client_id)
            if route.only_if is not None and not broker.settings.get(route.only_if):
                raise Malformed(f"{route.served.name} is served with {route.only_if.name} only")
            if route.flexible:
                tags = frame[pos]
                pos += 1
                if tags:
                    pos = skip_tags(frame, pos, tags)
        except (struct.error, IndexError):
            raise Malformed(f"a request header is cut short at {len(frame)} bytes") from None
        ctx = Context(broker, connection, version, correlation_id, client_id, route.older)
        if route.stepwise and len(frame) > LARGE_REQUEST:
            return large(route, ctx, frame, pos)
        request: object
        request, _ = decode(route.request, version, frame, pos)
        try:
            # Every request passes here: decoded, about to be handled.
            handle = route.permitted if broker.acls.on else route.handler
            if broker.quotas.active or broker.metrics is not None:
                wait = watch.begin(ctx, len(frame))
                if wait > 0:
                    return later(route, ctx, frame, pos, wait)
                response = watch.timed(handle, ctx, request)
            else:
                response = handle(ctx, request)
            if type(response) is route.response or response is NO_REPLY:
                if broker.settling.unsettled:
                    return awaited(route, ctx, request, now(response))
                return reply(route, ctx, response)
            assert isinstance(response, Awaitable), f"{route.served.name} was answered with {type(response)}"
            return awaited(route, ctx, request, response)
        except Malformed:
            raise
        except TakesLong:
            return in_turn(route, ctx, frame, pos)
        except Exception as error:
            return reply(route, ctx, refused(route, ctx, request, error))

    def refuse(self, broker: Broker, connection: ConnectionFacts, frame: memoryview, error: BrokerError) -> Answer:
        """The reply that an API gives when `error` keeps it from doing anything. For who is not to be trusted yet.

        As with Kafka, who named nothing gets an answer with nothing in it.
        """
        header, pos = read_request_header(frame, request_is_flexible)
        route = self._routes.get((header.api_key, header.api_version))
        if route is None:
            raise Malformed(f"API key {header.api_key} is not served in version {header.api_version}")
        request: object
        request, _ = decode(route.request, header.api_version, frame, pos, max_elements=FEW_ELEMENTS)
        name = header.client_id or ""
        ctx = Context(broker, connection, header.api_version, header.correlation_id, name, route.older)
        try:
            response = refused(route, ctx, request, error)
        except NoPlace:
            response = mirror.empty(request, route.response, ctx.version)
        return written(route, ctx, response)

    def _unknown(
        self, broker: Broker, connection: ConnectionFacts, key: int, version: int, correlation_id: int, client_id: str
    ) -> Answer:
        served = self._served.get(key)
        if served is None:
            raise Malformed(f"API key {key} is not served")
        if served.unknown_version is None:
            lowest, highest = served.advertised[0], served.advertised[-1]
            raise Malformed(f"{served.name} is served in versions {lowest} to {highest}, not {version}")
        ctx = Context(broker, connection, 0, correlation_id, client_id, served.older)
        return reply(self._routes[key, 0], ctx, served.unknown_version(ctx))


def load() -> None:
    """Import every API there is; a new file is a new API."""
    package = __name__.rpartition(".")[0]
    for module in iter_modules(import_module(package).__path__):
        if module.name[0] == "k" and module.name[1:3].isdigit():
            import_module(f"{package}.{module.name}")


REGISTRY = Registry()
serves = REGISTRY.serves
answer = REGISTRY.answer
refuse = REGISTRY.refuse
