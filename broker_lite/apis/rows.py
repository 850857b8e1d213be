"""Which API needs which operation on which resource: one row each, asked before the handler is.

    free                                  everybody may
    cluster(OPERATION)                    the whole request, or nothing of it
    whole((OPERATION, RESOURCE, field))   the same, for the resource that a field names
    each(field, answers, OPERATION, …)    part by part: what is not allowed is taken out and answered with the code
    a function                            an API with rules of its own, below or in `rows_of_topics.py`

An API without a row is refused while ACLs are on, and a test asks for the row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker_lite.apis import rows_of_topics
from broker_lite.apis.guard import Ask, Guard, Row, answer_for, then
from broker_lite.apis.rows_of_topics import each_topic, refuse_groups
from broker_lite.security.acls import Operation, Resource

if TYPE_CHECKING:
    from broker_lite.apis.registry import Context

Need = tuple[Operation, Resource, str]

READ, WRITE, CREATE, DELETE, ALTER = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
)
DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
TOPIC, GROUP, TXN, CLUSTER = Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID, Resource.CLUSTER

_CONFIGS = {2: TOPIC, 4: CLUSTER, 8: CLUSTER, 16: CLUSTER, 32: GROUP}
"""The kinds of things that have configurations, as they travel."""


def free(guard: Guard, request: object, ask: Ask) -> object:
    return ask(request)


def cluster(operation: Operation) -> Row:
    def row(guard: Guard, request: object, ask: Ask) -> object:
        guard.require(operation, CLUSTER)
        return ask(request)

    return row


def whole(*needs: Need, then_topics: Row | None = None) -> Row:
    """Every need is for the resource in a field of the request; a field that is null needs nothing. An empty one is a
    name that nobody has, and is asked about like any other."""

    def row(guard: Guard, request: object, ask: Ask) -> object:
        for operation, resource, field in needs:
            name = getattr(request, field)
            if name is not None:
                guard.require(operation, resource, name)
        return ask(request) if then_topics is None else then_topics(guard, request, ask)

    return row


def each(field: str, answers: str, operation: Operation, resource: Resource) -> Row:
    """For lists of names: groups, transactional ids."""

    def row(guard: Guard, request: object, ask: Ask) -> object:
        denied = [name for name in getattr(request, field) if not guard.may(operation, resource, name)]
        return answer_for(guard, request, field, {resource: denied}, answers, ask)

    return row


def configs(operation: Operation, answers: str) -> Row:
    def row(guard: Guard, request: object, ask: Ask) -> object:
        denied: dict[Resource, list[object]] = {}
        for asked in getattr(request, "resources"):  # noqa: B009  the field of three messages
            resource = _CONFIGS.get(asked.resource_type, CLUSTER)
            named = (asked.resource_name,) if resource is not CLUSTER else ()
            if not guard.may(operation, resource, *named):
                denied.setdefault(resource, []).append(asked)
        return answer_for(guard, request, "resources", denied, answers, ask)

    return row


def listed(field: str, name: str, operation: Operation, resource: Resource, *, cluster_sees_all: bool = False) -> Row:
    """Only what one may see is listed."""

    def row(guard: Guard, request: object, ask: Ask) -> object:
        def finish(response: object) -> object:
            if not (cluster_sees_all and guard.may(operation, CLUSTER)):
                seen = [one for one in getattr(response, field) if guard.may(operation, resource, getattr(one, name))]
                setattr(response, field, seen)
            return response

        return then(ask(request), finish)

    return row


ROWS: dict[int, Row] = {
    0: whole((WRITE, TXN, "transactional_id"), then_topics=each_topic("topic_data", "responses", WRITE)),
    1: rows_of_topics.fetch,
    2: each_topic("topics", "topics", DESCRIBE),
    3: rows_of_topics.metadata,
    8: whole((READ, GROUP, "group_id"), then_topics=each_topic("topics", "topics", READ)),
    9: rows_of_topics.offset_fetch,
    10: rows_of_topics.find_coordinator,
    11: whole((READ, GROUP, "group_id")),
    12: whole((READ, GROUP, "group_id")),
    13: whole((READ, GROUP, "group_id")),
    14: whole((READ, GROUP, "group_id")),
    15: refuse_groups("groups"),
    16: listed("groups", "group_id", DESCRIBE, GROUP, cluster_sees_all=True),
    17: free,
    18: free,
    19: rows_of_topics.create_topics,
    20: rows_of_topics.delete_topics,
    21: each_topic("topics", "topics", DELETE),
    22: rows_of_topics.init_producer_id,
    23: rows_of_topics.offsets_for_leader_epochs,
    24: rows_of_topics.add_partitions_to_txn,
    25: whole((WRITE, TXN, "transactional_id"), (READ, GROUP, "group_id")),
    26: whole((WRITE, TXN, "transactional_id")),
    27: rows_of_topics.write_txn_markers,
    28: whole(
        (WRITE, TXN, "transactional_id"),
        (READ, GROUP, "group_id"),
        then_topics=each_topic("topics", "topics", READ),
    ),
    29: cluster(DESCRIBE),
    30: cluster(ALTER),
    31: cluster(ALTER),
    32: configs(DESCRIBE_CONFIGS, "results"),
    33: configs(ALTER_CONFIGS, "responses"),
    34: cluster(ALTER),
    35: cluster(DESCRIBE),
    36: free,
    37: each_topic("topics", "results", ALTER),
    42: each("groups_names", "results", DELETE, GROUP),
    43: cluster(ALTER),
    44: configs(ALTER_CONFIGS, "responses"),
    45: cluster(ALTER),
    46: cluster(DESCRIBE),
    47: whole((DELETE, GROUP, "group_id"), then_topics=each_topic("topics", "topics", READ)),
    48: cluster(DESCRIBE_CONFIGS),
    49: cluster(ALTER_CONFIGS),
    50: cluster(DESCRIBE),
    51: cluster(ALTER),
    55: cluster(DESCRIBE),
    57: cluster(ALTER),
    60: rows_of_topics.describe_cluster,
    61: each_topic("topics", "topics", READ),
    65: rows_of_topics.describe_transactions,
    66: listed("transaction_states", "transactional_id", DESCRIBE, TXN),
    68: rows_of_topics.subscribe,
    69: refuse_groups("group_ids"),
    71: free,
    72: free,
    74: cluster(DESCRIBE_CONFIGS),
    75: rows_of_topics.describe_topic_partitions,
    76: rows_of_topics.subscribe,
    77: refuse_groups("group_ids"),
    78: whole((READ, GROUP, "group_id"), then_topics=each_topic("topics", "responses", READ)),
    79: whole((READ, GROUP, "group_id"), then_topics=each_topic("topics", "responses", READ)),
    88: rows_of_topics.subscribe,
    89: refuse_groups("group_ids"),
    90: rows_of_topics.share_group_offsets,
    91: whole((READ, GROUP, "group_id"), then_topics=each_topic("topics", "responses", READ)),
    92: whole((DELETE, GROUP, "group_id"), then_topics=each_topic("topics", "responses", READ)),
}

UNTOUCHED: dict[int, Callable[[Context, object], bool]] = {0: rows_of_topics.may_write}
"""For whom a glance may do: where it says yes the row is not asked. It never says yes to what the row would refuse."""
