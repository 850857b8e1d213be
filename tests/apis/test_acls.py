"""CreateAcls, DescribeAcls and DeleteAcls: what stands where an error would."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_lite.errors import ErrorCode
from broker_lite.security.acls import Operation, Pattern, Permission, Resource
from broker_lite.wire.messages.k29_describe_acls import DescribeAclsRequest, DescribeAclsResponse
from broker_lite.wire.messages.k30_create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from broker_lite.wire.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from tests.security.test_permissions import AUTHORIZER
from tests.support.acls import every
from tests.support.talk import Talk, talking

SETTINGS = {"authorizer.class.name": AUTHORIZER, "super.users": "User:root"}


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path, settings=SETTINGS) as talk:
        talk.facts.principal = "User:root"
        yield talk


def may_read(principal: str) -> AclCreation:
    return AclCreation(
        resource_type=Resource.TOPIC,
        resource_name="t",
        resource_pattern_type=Pattern.LITERAL,
        principal=principal,
        host="*",
        operation=Operation.READ,
        permission_type=Permission.ALLOW,
    )


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_what_was_made_comes_with_an_empty_text_and_what_was_not_with_a_reason(talk: Talk, version: int) -> None:
    request = CreateAclsRequest(creations=[may_read("User:alice"), may_read("alice")])
    made, refused = (await talk.ask(request, version, CreateAclsResponse)).results
    assert (made.error_code, made.error_message) == (0, "")
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert refused.error_message


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_list_comes_with_an_empty_text(talk: Talk, version: int) -> None:
    answer = await talk.ask(every(DescribeAclsRequest), version, DescribeAclsResponse)
    assert (answer.error_code, answer.error_message) == (0, "")


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_what_was_withdrawn_comes_without_a_text(talk: Talk, version: int) -> None:
    await talk.ask(CreateAclsRequest(creations=[may_read("User:alice")]), version, CreateAclsResponse)
    request = DeleteAclsRequest(filters=[every(DeleteAclsFilter)])
    (answer,) = (await talk.ask(request, version, DeleteAclsResponse)).filter_results
    assert (answer.error_code, answer.error_message) == (0, None)
    assert [(one.error_code, one.error_message) for one in answer.matching_acls] == [(0, None)]
