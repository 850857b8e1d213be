"""What names every rule that there is, whoever asks."""

from __future__ import annotations

from typing import TypeVar

from broker_lite.security.acls import Operation, Pattern, Permission, Resource
from broker_lite.wire.messages.k29_describe_acls import DescribeAclsRequest
from broker_lite.wire.messages.k31_delete_acls import DeleteAclsFilter

Filter = TypeVar("Filter", DescribeAclsRequest, DeleteAclsFilter)


def every(kind: type[Filter]) -> Filter:
    return kind(
        resource_type_filter=Resource.ANY,
        resource_name_filter=None,
        pattern_type_filter=Pattern.ANY,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
