"""Asking the ACLs about one request: may it pass, which of its parts may, and what is the rest told.

`rows.py` says for each API what to ask.  A row gets the request before its handler does; it can refuse the request,
take parts out of it and answer for them, or look through the response.  Nothing of this runs where ACLs are off.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from broker_lite.apis import mirror
from broker_lite.apis.authorized import OPERATIONS, bits
from broker_lite.apis.slices import Steps, at_once, run
from broker_lite.errors import ErrorCode, Malformed, refusal
from broker_lite.ids import TopicId
from broker_lite.security.acls import CLUSTER_NAME, Operation, Resource
from broker_lite.shapes import dataclass

if TYPE_CHECKING:
    from broker_lite.apis.registry import Context

Ask = Callable[..., object]
"""The handler, given the request: a response, or something to wait for that gives it."""
Row = Callable[["Guard", object, Ask], object]

CODES = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
TEXTS = {
    Resource.TOPIC: "Topic authorization failed.",
    Resource.GROUP: "Group authorization failed.",
    Resource.CLUSTER: "Cluster authorization failed.",
    Resource.TRANSACTIONAL_ID: "Transactional Id authorization failed.",
}

MANY = 1000
"""So many denials, and others go on while they are written down."""


@dataclass(slots=True)
class Guard:
    ctx: Context
    response: type

    def may(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        connection = self.ctx.connection
        return self.ctx.broker.acls.allows(connection.principal, connection.peer[0], operation, resource, name)

    def may_some(self, operation: Operation, resource: Resource) -> bool:
        connection = self.ctx.connection
        return self.ctx.broker.acls.allows_some(connection.principal, connection.peer[0], operation, resource)

    def require(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> None:
        if not self.may(operation, resource, name):
            raise refusal(CODES[resource], TEXTS[resource])

    def operations(self, resource: Resource, name: str = CLUSTER_NAME) -> int:
        """What the client may do, as a bit field. As in Kafka, of the cluster only who may describe it is told."""
        if resource is Resource.CLUSTER and not self.may(Operation.DESCRIBE, resource):
            return 0
        return bits(*(one for one in OPERATIONS[resource] if self.may(one, resource, name)))

    def topic_of(self, asked: object) -> str | None:
        """The topic that part of a message names, by name or by id; None for an id that nobody has."""
        name: str | None = (
            getattr(asked, "name", None) or getattr(asked, "topic", None) or getattr(asked, "topic_name", None)
        )
        if name:
            return name
        known = self.ctx.broker.topics.by_id(TopicId(getattr(asked, "topic_id", b"")))
        return None if known is None else known.name

    def refused(self, request: object, resource: Resource) -> object:
        """The response for a request of which nothing is allowed."""
        return at_once(self.refused_stepwise(request, resource))

    def refused_stepwise(self, request: object, resource: Resource) -> Steps[object]:
        code, text = CODES[resource], TEXTS[resource]
        made = yield from mirror.refused_stepwise(request, self.response, self.ctx.version, code, text)
        if made is None:
            raise Malformed(f"{type(request).__name__} is not allowed and has no place for that")
        return made


def then(response: object, finish: Callable[[object], object]) -> object:
    """`finish` applied to a response, now or when it is there."""
    return _later(response, finish) if isinstance(response, Awaitable) else finish(response)


async def _later(response: Awaitable[object], finish: Callable[[object], object]) -> object:
    return finish(await response)


def with_only(request: object, field: str, parts: list[object]) -> object:
    less = copy.copy(request)
    setattr(less, field, parts)
    return less


def answer_for(
    guard: Guard, request: object, field: str, denied: dict[Resource, list[object]], answers: str, ask: Ask
) -> object:
    """The handler's response to what is left of `request`, with entries for what was `denied` put before its own."""
    if not any(denied.values()):
        return ask(request)
    out = {id(part) for parts in denied.values() for part in parts}
    left: list[object] = [part for part in getattr(request, field) if id(part) not in out]
    entries = _denied_entries(guard, request, field, denied, answers)
    answered = ask(with_only(request, field, left)) if left else None
    if len(out) > MANY:
        return _merged_later(guard, answered, entries, answers)
    shape = at_once(entries)
    return shape if answered is None else then(answered, lambda response: _merged(shape, response, answers))


def _denied_entries(
    guard: Guard, request: object, field: str, denied: dict[Resource, list[object]], answers: str
) -> Steps[object]:
    """A response with an entry for all that was denied, and nothing else."""
    extra: list[object] = []
    shape: object = None
    for resource, parts in denied.items():
        if parts:
            shape = yield from guard.refused_stepwise(with_only(request, field, parts), resource)
            extra += getattr(shape, answers)
    setattr(shape, answers, extra)
    return shape


def _merged(shape: object, response: object, answers: str) -> object:
    if not hasattr(response, answers):  # no reply is expected (acks=0): Kafka says that something failed by closing
        raise Malformed("a part of the request is not allowed, and nobody waits for the answer")
    setattr(response, answers, getattr(shape, answers) + getattr(response, answers))
    return response


async def _merged_later(guard: Guard, answered: object, entries: Steps[object], answers: str) -> object:
    response = await answered if isinstance(answered, Awaitable) else answered
    shape = await run(guard.ctx, entries)
    return shape if response is None else _merged(shape, response, answers)
