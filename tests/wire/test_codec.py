"""What the codec refuses, in which words, and what it drops without one."""

from __future__ import annotations

import linecache
import math

import pytest

from broker_lite.errors import Malformed
from broker_lite.wire.codec import decode, encode_bytes, reader
from broker_lite.wire.messages.k00_produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from broker_lite.wire.messages.k01_fetch import FetchRequest, ReplicaState
from broker_lite.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from broker_lite.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker_lite.wire.messages.k20_delete_topics import DeleteTopicsRequest
from broker_lite.wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from broker_lite.wire.messages.k48_describe_client_quotas import DescribeClientQuotasResponse, EntryData, ValueData
from broker_lite.wire.messages.k75_describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest


def read(cls: type, version: int, written: str) -> object:
    return decode(cls, version, memoryview(bytes.fromhex(written)))[0]


@pytest.mark.parametrize(
    ("cls", "version", "written", "words"),
    [
        pytest.param(MetadataRequest, 0, "7FFFFFFF", "topics claims 2147483647 with 0 bytes left", id="a count"),
        pytest.param(MetadataRequest, 9, "FFFFFFFF0F", "topics claims 4294967294", id="a compact count"),
        pytest.param(MetadataRequest, 0, "FFFFFFFF", "topics is null", id="null where it may not be"),
        pytest.param(MetadataRequest, 9, "0200000000", "name is null", id="compact null where it may not be"),
        pytest.param(MetadataRequest, 0, "00000001 0005 6162", "name claims 5 with 2 bytes left", id="a string"),
        pytest.param(MetadataRequest, 0, "0000", "cut short", id="half a count"),
        pytest.param(MetadataRequest, 9, "", "cut short", id="nothing"),
        pytest.param(SaslAuthenticateRequest, 0, "00000010 AA", "auth_bytes claims 16 with 1", id="bytes"),
        pytest.param(SaslAuthenticateRequest, 2, "03 AA", "auth_bytes claims 2 with 1", id="compact bytes"),
        pytest.param(SaslAuthenticateRequest, 2, "01 FF808080FF00", "varint of more than 32 bits", id="a varint"),
        pytest.param(ApiVersionsRequest, 3, "8180 04" + "61" * 70000, "claims 65536", id="a string over 32767"),
        pytest.param(DescribeTopicPartitionsRequest, 0, "01 00000000 01 02 61", "cut short", id="half a struct"),
    ],
)
def test_bytes_that_lie_are_refused_by_name(cls: type, version: int, written: str, words: str) -> None:
    with pytest.raises(Malformed, match=f"{cls.__name__} v{version}.*{words}"):
        read(cls, version, written)


def test_a_count_is_compared_with_the_smallest_element_not_with_bytes() -> None:
    """Twelve bytes can hold twelve empty compact strings but only six old ones."""
    with pytest.raises(Malformed, match="topic_names claims 7 with 12"):
        read(DeleteTopicsRequest, 1, "00000007" + "00" * 12)


def test_a_message_has_a_budget_of_elements() -> None:
    message = DeleteTopicsRequest(topic_names=["a"] * 1000, timeout_ms=1)
    written = memoryview(encode_bytes(message, 1))
    assert decode(DeleteTopicsRequest, 1, written, max_elements=1000)[0] == message
    with pytest.raises(Malformed, match="topic_names with 1000 elements"):
        decode(DeleteTopicsRequest, 1, written, max_elements=999)


def test_text_that_grows_when_decoded_pays_from_the_budget() -> None:
    message = DeleteTopicsRequest(topic_names=["😀" * 8000], timeout_ms=1)
    written = memoryview(encode_bytes(message, 1))
    with pytest.raises(Malformed, match="topic_names"):
        decode(DeleteTopicsRequest, 1, written, max_elements=900)
    assert decode(DeleteTopicsRequest, 1, written, max_elements=1001)[0] == message


def test_bad_utf8_becomes_the_replacement_character_as_in_kafka() -> None:
    assert read(MetadataRequest, 0, "00000001 0003 61FF62") == MetadataRequest(
        topics=[MetadataRequestTopic(name="a\ufffdb")]
    )


def test_any_byte_but_zero_is_true() -> None:
    request = read(MetadataRequest, 4, "FFFFFFFF 07")
    assert isinstance(request, MetadataRequest)
    assert request.allow_auto_topic_creation is True


def test_not_a_number_is_written_as_java_writes_it() -> None:
    value = ValueData(key="producer_byte_rate", value=math.nan)
    entry = EntryData(entity=[], values=[value])
    written = encode_bytes(DescribeClientQuotasResponse(error_message=None, entries=[entry]), 0)
    assert written.endswith(bytes.fromhex("7FF8000000000000"))


def test_tags_are_read_in_any_order_and_unknown_ones_are_skipped() -> None:
    written = "0000 01 00000000 03  63 02 AABB  01 08 0000000000000007  00 01 01"
    response = read(ApiVersionsResponse, 3, written)
    assert response == ApiVersionsResponse(api_keys=[], finalized_features_epoch=7, supported_features=[])


def test_a_known_tag_must_fill_its_size() -> None:
    with pytest.raises(Malformed, match="finalized_features_epoch"):
        read(ApiVersionsResponse, 3, "0000 01 00000000 01  01 09 000000000000000700")
    with pytest.raises(Malformed, match="finalized_features_epoch"):
        read(ApiVersionsResponse, 3, "0000 01 00000000 01  01 04 0000000000000007")


def test_more_tags_than_anybody_needs_are_refused() -> None:
    with pytest.raises(Malformed, match="65"):
        read(ApiVersionsResponse, 3, "0000 01 00000000 41" + "6300" * 65)


def test_tagged_structs_are_written_only_when_they_say_something() -> None:
    def response(**said: object) -> ProduceResponse:
        partition = PartitionProduceResponse(index=0, base_offset=1, **said)  # type: ignore[arg-type]
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])

    silent = encode_bytes(response(), 10)
    assert encode_bytes(response(current_leader=LeaderIdAndEpoch()), 10) == silent
    leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
    assert encode_bytes(response(current_leader=leader), 10).hex().count("010009000000020000000500") == 1
    assert encode_bytes(response(current_leader=leader), 9) == encode_bytes(response(), 9), "no such field yet"


def test_an_array_of_structs_travels_in_a_tag() -> None:
    endpoints = [NodeEndpoint(node_id=1, host="a", port=9092), NodeEndpoint(node_id=2, host="b", port=9093, rack="r")]
    message = ProduceResponse(responses=[], node_endpoints=endpoints)
    written = encode_bytes(message, 10)
    one, other = "00000001 02 61 00002384 00 00", "00000002 02 62 00002385 0272 00"
    assert written == bytes.fromhex(f"01 00000000 01 00 1A 03 {one} {other}")
    assert decode(ProduceResponse, 10, memoryview(written))[0] == message


def test_a_struct_may_be_null() -> None:
    for cursor in (None, Cursor(topic_name="a", partition_index=3)):
        message = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="a")], cursor=cursor)
        written = memoryview(encode_bytes(message, 0))
        assert decode(DescribeTopicPartitionsRequest, 0, written) == (message, len(written))


def test_a_response_drops_what_an_old_client_cannot_read() -> None:
    partition = PartitionProduceResponse(index=0, base_offset=1, log_start_offset=7, error_message="no")
    response = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])
    read_back, _ = decode(ProduceResponse, 3, memoryview(encode_bytes(response, 3)))
    assert read_back.responses[0].partition_responses[0].log_start_offset == -1


def test_a_request_refuses_to_lose_what_was_asked() -> None:
    fetch = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[], replica_state=ReplicaState(replica_id=3))
    with pytest.raises(ValueError, match="FetchRequest has no replica_state at version 11"):
        encode_bytes(fetch, 11)
    produce = ProduceRequest(transactional_id="t", acks=1, timeout_ms=1, topic_data=[])
    with pytest.raises(ValueError, match="no transactional_id at version 2"):
        encode_bytes(produce, 2)


def test_a_request_loses_what_kafka_calls_ignorable() -> None:
    assert encode_bytes(ApiVersionsRequest(client_software_name="me"), 0) == b""


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 4),
        (DeleteTopicsRequest(topic_names=["x" * 32768], timeout_ms=1), 1),
        (DeleteTopicsRequest(topic_names=["x" * 32768], timeout_ms=1), 4),
        (DeleteTopicsRequest(topic_names=[], timeout_ms=2**31), 1),
        (DeleteTopicsRequest(topic_names=["\ud800"], timeout_ms=1), 1),
    ],
)
def test_a_message_that_cannot_be_written_is_a_value_error(message: object, version: int) -> None:
    with pytest.raises(ValueError):
        encode_bytes(message, version)


def test_the_longest_string_goes_through() -> None:
    for version in (1, 4):
        message = DeleteTopicsRequest(topic_names=["x" * 32767], timeout_ms=1)
        assert decode(DeleteTopicsRequest, version, memoryview(encode_bytes(message, version)))[0] == message


def test_a_debugger_sees_the_compiled_source() -> None:
    code = reader(ProduceRequest, 9).__code__
    assert "m2.records = buf[pos:stop]" in "".join(linecache.getlines(code.co_filename))


def test_null_records_and_empty_records_differ() -> None:
    for version in (3, 9):
        for records in (None, memoryview(b"")):
            data = PartitionProduceData(index=0, records=records)
            message = ProduceRequest(
                acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=[data])]
            )
            assert decode(ProduceRequest, version, memoryview(encode_bytes(message, version)))[0] == message
