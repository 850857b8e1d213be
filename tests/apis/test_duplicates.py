"""One thing named again and again: answered once, refused, or answered each time, as Kafka does.

What Kafka refuses is tested where the API is (CreateTopics, DeleteTopics, ListOffsets, AlterConfigs, ...).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_lite.config.start import TopicAtStart
from broker_lite.errors import ErrorCode
from broker_lite.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from broker_lite.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from broker_lite.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from broker_lite.wire.messages.k15_describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from broker_lite.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker_lite.wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from broker_lite.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from broker_lite.wire.messages.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from broker_lite.wire.messages.k66_list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tests.support.talk import Talk, bytes_of, talking

TOPIC, GROUP, METRICS = 2, 32, 16


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    topics = [TopicAtStart("t", 2, {"retention.ms": "1000"}), TopicAtStart("u", 1, {}), TopicAtStart("v", 1, {})]
    async with talking(tmp_path, topics=topics) as talk:
        yield talk


def resource(name: str, kind: int = TOPIC, keys: list[str] | None = None) -> DescribeConfigsResource:
    return DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)


async def test_configurations_are_described_as_often_as_they_are_asked_for(talk: Talk) -> None:
    asked = [resource("t"), resource("u"), resource("t", keys=["retention.ms"]), resource("nobody"), resource("t")]
    request = DescribeConfigsRequest(resources=asked, include_synonyms=True, include_documentation=True)
    whole, other, one_key, missing, again = (await talk.ask(request, 4, DescribeConfigsResponse)).results
    assert whole == again
    assert [config.name for config in one_key.configs] == ["retention.ms"]
    assert one_key.configs[0] == next(config for config in whole.configs if config.name == "retention.ms")
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {config.name for config in other.configs} == {config.name for config in whole.configs}
    assert next(config.value for config in other.configs if config.name == "retention.ms") == "604800000"


async def test_what_is_configured_alike_is_told_of_its_own_kind(talk: Talk) -> None:
    """A group, a subscription and a topic of which nothing is set are not the same."""
    request = DescribeConfigsRequest(resources=[resource("x", GROUP), resource("x", METRICS), resource("u")])
    group, metrics, topic = (await talk.ask(request, 4, DescribeConfigsResponse)).results
    names = [{config.name for config in result.configs} for result in (group, metrics, topic)]
    assert "consumer.session.timeout.ms" in names[0]
    assert "interval.ms" in names[1]
    assert "retention.ms" in names[2]


async def test_a_group_is_told_all_its_offsets_as_often_as_it_asks(talk: Talk) -> None:
    lines = [OffsetCommitRequestPartition(partition_index=n, committed_offset=n, committed_metadata="") for n in (0, 1)]
    commit = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=lines)])
    await talk.ask(commit, 8, OffsetCommitResponse)
    asked = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "h", "g")]
    first, other, again = (await talk.ask(OffsetFetchRequest(groups=asked), 8, OffsetFetchResponse)).groups
    assert first == again
    assert [(line.partition_index, line.committed_offset) for line in first.topics[0].partitions] == [(0, 0), (1, 1)]
    assert (other.group_id, other.topics) == ("h", [])


async def test_groups_and_transactions_are_described_as_often_as_they_are_asked_for(talk: Talk) -> None:
    init = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000)
    await talk.ask(init, 4, InitProducerIdResponse)
    groups = await talk.ask(DescribeGroupsRequest(groups=["g", "h", "g"]), 5, DescribeGroupsResponse)
    assert [group.group_id for group in groups.groups] == ["g", "h", "g"]
    asked = DescribeTransactionsRequest(transactional_ids=["x", "y", "x"])
    states = (await talk.ask(asked, 0, DescribeTransactionsResponse)).transaction_states
    assert [(state.transactional_id, state.error_code) for state in states] == [
        ("x", 0),
        ("y", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ("x", 0),
    ]


async def test_transactions_are_listed_by_many_producers_and_each_once(talk: Talk) -> None:
    ids = []
    for name in ("x", "y"):
        init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000)
        ids.append((await talk.ask(init, 4, InitProducerIdResponse)).producer_id)
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[ids[1]] * 1000, duration_filter=-1)
    listed = (await talk.ask(request, 1, ListTransactionsResponse)).transaction_states
    assert [state.transactional_id for state in listed] == ["y"]


@pytest.mark.parametrize("epoch", [-1, 0])
async def test_a_partition_is_fetched_once_as_it_was_named_last(talk: Talk, epoch: int) -> None:
    await talk.produce("t", b"a")
    await talk.produce("t", b"b")
    asked = [(0, 0), (1, 0), (0, 1)]
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                topic="t",
                partitions=[FetchPartition(partition=n, fetch_offset=at, partition_max_bytes=1 << 20)],
            )
            for n, at in asked
        ],
    )
    found = (await talk.ask(request, 11, FetchResponse)).responses
    parts = [part for topic in found for part in topic.partitions]
    assert [part.partition_index for part in parts] == [0, 1]
    assert bytes_of(parts[0])[7] == 1, "from offset 1 on"


async def test_a_marker_is_written_once_where_it_is_asked_for_twice(talk: Talk) -> None:
    topic = WritableTxnMarkerTopic(name="t", partition_indexes=[0, 1, 0])
    marker = WritableTxnMarker(
        producer_id=5, producer_epoch=0, transaction_result=False, topics=[topic], coordinator_epoch=0
    )
    found = await talk.ask(WriteTxnMarkersRequest(markers=[marker]), 1, WriteTxnMarkersResponse)
    assert [part.partition_index for part in found.markers[0].topics[0].partitions] == [0, 1]
    assert talk.broker.topics.partition("t", 0).offsets.end == talk.broker.topics.partition("t", 1).offsets.end
