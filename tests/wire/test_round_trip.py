"""What is written at a version is read back at that version, whatever it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from broker_lite.wire.codec import decode, encode, encode_bytes, encode_in_parts
from tests.wire.samples import EVERY_VERSION, NAMES, messages


@pytest.mark.parametrize(("cls", "version"), EVERY_VERSION, ids=NAMES)
def test_every_message_at_every_version_comes_back_as_it_was(cls: type, version: int) -> None:
    @settings(
        max_examples=6,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(messages(cls, version))
    def round_trip(message: Any) -> None:
        written = encode_bytes(message, version)
        assert decode(cls, version, memoryview(written)) == (message, len(written))
        assert b"".join(map(bytes, encode_in_parts(message, version))) == written  # type: ignore[arg-type]

    round_trip()


@given(st.binary(max_size=20), st.binary(min_size=1, max_size=20))
def test_a_message_may_start_anywhere_in_its_buffer(before: bytes, name: bytes) -> None:
    from broker_lite.wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest

    message = SaslAuthenticateRequest(auth_bytes=name)
    written = before + encode_bytes(message, 2)
    assert decode(SaslAuthenticateRequest, 2, memoryview(written), len(before)) == (message, len(written))


def test_a_long_message_comes_in_parts_of_about_a_quarter_of_a_megabyte() -> None:
    from broker_lite.wire.messages.k15_describe_groups import (
        DescribedGroup,
        DescribedGroupMember,
        DescribeGroupsResponse,
    )

    member = DescribedGroupMember(
        member_id="m", client_id="c", client_host="h", member_metadata=bytes(100_000), member_assignment=b""
    )
    few = DescribedGroup(group_id="few", group_state="", protocol_type="", protocol_data="", members=[member] * 30)
    many = DescribedGroup(group_id="", group_state="", protocol_type="", protocol_data="", members=[])
    message = DescribeGroupsResponse(groups=[few, *[many] * 100_000])
    parts = [bytes(part) for part in encode_in_parts(message, 6)]  # type: ignore[arg-type]
    assert b"".join(parts) == encode_bytes(message, 6)
    assert len(parts) > 20
    assert max(map(len, parts)) < 1 << 19


def test_records_leave_as_the_very_object_that_came_in() -> None:
    from broker_lite.wire.messages.k01_fetch import FetchableTopicResponse, FetchResponse, PartitionData

    class Slice:
        def __len__(self) -> int:
            return 1000

    lazy = Slice()
    partition = PartitionData(partition_index=0, high_watermark=5, records=lazy)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    before, records, after = encode(response, 12)
    assert records is lazy
    assert isinstance(before, bytes)
    assert before.endswith(b"\xe9\x07"), "the varint of 1001"
    assert after == bytes(3), "no tags of the partition, of the topic, of the response"


def test_records_arrive_as_a_view_on_the_frame() -> None:
    from broker_lite.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData

    data = PartitionProduceData(index=0, records=memoryview(b"some records"))
    topic = TopicProduceData(name="t", partition_data=[data])
    frame = bytearray(encode_bytes(ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]), 9))
    read, _ = decode(ProduceRequest, 9, memoryview(frame))
    records = read.topic_data[0].partition_data[0].records
    assert records is not None
    assert bytes(records) == b"some records"
    frame[frame.index(b"some")] = ord("S")
    assert bytes(records) == b"Some records"
