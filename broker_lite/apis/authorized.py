"""What a client may do, as the bit fields that some answers carry: bit n set means operation n is allowed.

Without ACLs everything that makes sense for the kind of resource is; with them `rows.py` puts in what is true.
"""

from __future__ import annotations

from broker_lite.security.acls import Operation, Resource

NOT_ASKED = -(2**31)
"""The client did not ask."""

OPERATIONS = {
    Resource.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    Resource.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
}


def bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = bits(*OPERATIONS[Resource.TOPIC])
CLUSTER_OPERATIONS = bits(*OPERATIONS[Resource.CLUSTER])
GROUP_OPERATIONS = bits(*OPERATIONS[Resource.GROUP])
