from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import pytest

from broker_lite.wire.codec import encode_bytes
from broker_lite.wire.layout import layout
from broker_lite.wire.messages import ALL, modules, request_class, response_class
from broker_lite.wire.messages.k00_produce import LeaderIdAndEpoch, PartitionProduceResponse
from broker_lite.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from broker_lite.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker_lite.wire.messages.k26_end_txn import EndTxnRequest
from broker_lite.wire.schema import parse_versions, spec_of
from tests.wire import table


def test_the_schema_is_what_was_reviewed() -> None:
    """If this fails on purpose: python -m tests.wire.table > tests/wire/schema.txt, and look at the difference."""
    assert Path(__file__).with_name("schema.txt").read_text() == table.schema()


def test_a_message_compares_by_value_and_shows_its_fields() -> None:
    one = MetadataRequestTopic(name="orders")
    assert one == MetadataRequestTopic(name="orders")
    assert one != MetadataRequestTopic(name="returns")
    assert one != object()
    assert "name='orders'" in repr(one)
    assert copy.deepcopy(one) == one


def test_a_required_field_must_be_given() -> None:
    with pytest.raises(TypeError, match="name"):
        MetadataRequestTopic()  # type: ignore[call-arg]


def test_a_field_that_does_not_exist_cannot_be_set() -> None:
    with pytest.raises(TypeError):
        MetadataRequestTopic(name="a", nmae="b")  # type: ignore[call-arg]
    one = MetadataRequestTopic(name="a")
    with pytest.raises(AttributeError):
        one.nmae = "b"  # type: ignore[attr-defined]


def test_every_message_has_its_own_list() -> None:
    one, other = ApiVersionsResponse(api_keys=[]), ApiVersionsResponse(api_keys=[])
    one.supported_features.append(None)  # type: ignore[arg-type]
    assert other.supported_features == []


def test_a_default_struct_is_shared_and_refuses_changes() -> None:
    one = PartitionProduceResponse(index=0, base_offset=0)
    assert one.current_leader == LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
    with pytest.raises(AttributeError, match="make your own"):
        one.current_leader.leader_id = 7
    one.current_leader = LeaderIdAndEpoch(leader_id=7)
    one.current_leader.leader_epoch = 8


@pytest.mark.parametrize(
    ("text", "numbers"), [("3-5", [3, 4, 5]), ("4+", [4, 5, 6]), ("2", [2]), ("0-0", [0]), (None, [])]
)
def test_versions_are_written_as_kafka_writes_them(text: str | None, numbers: list[int]) -> None:
    assert list(parse_versions(text, 6)) == numbers


def test_a_version_nobody_declared_is_a_bug_of_ours() -> None:
    with pytest.raises(ValueError, match="0 to 5, not 6"):
        layout(EndTxnRequest, 6)
    with pytest.raises(ValueError, match="0 to 5, not -1"):
        layout(EndTxnRequest, -1)


def test_a_file_is_named_after_the_key_it_declares() -> None:
    for key, (request, response) in ALL.items():
        assert spec_of(request).key == spec_of(response).key == key
        assert spec_of(request).versions == spec_of(response).versions
        assert request.__module__.endswith(modules()[key])
    assert request_class(18) is ApiVersionsRequest
    assert response_class(18) is ApiVersionsResponse
    with pytest.raises(KeyError):
        request_class(4)


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    code = "import sys; from broker_lite.wire.messages import request_class; request_class(18)\n"
    code += "print([name for name in sys.modules if '.messages.k' in name])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "['broker_lite.wire.messages.k18_api_versions']"


def test_null_topics_mean_all_and_empty_means_none_since_version_1() -> None:
    assert encode_bytes(MetadataRequest(topics=None), 1) == b"\xff\xff\xff\xff"
    assert encode_bytes(MetadataRequest(topics=[]), 1) == b"\x00\x00\x00\x00"
    with pytest.raises(ValueError):
        encode_bytes(MetadataRequest(topics=None), 0)
