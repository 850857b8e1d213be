from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_lite.errors import ErrorCode, Malformed
from broker_lite.ids import GROUP_OFFSETS_TOPIC
from broker_lite.records.batch import Batch
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.talk import NOW, Talk, bytes_of, talking


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path) as talk:
        talk.broker.topics.create("t", 2, {})
        yield talk


@pytest.mark.parametrize("version", range(3, 13))
async def test_a_batch_gets_the_next_offset(talk: Talk, version: int) -> None:
    assert (await talk.produce("t", b"a", b"b", version=version)).base_offset == 0
    second = await talk.produce("t", b"c", version=version)
    assert (second.error_code, second.base_offset, second.log_append_time_ms) == (0, 2, -1)
    assert second.log_start_offset == (0 if version >= 5 else -1)


async def test_version_13_names_topics_by_id(talk: Talk) -> None:
    topic = talk.broker.topics.get("t")
    assert topic is not None
    batch = memoryview(build_batch([NewRecord(key=None, value=b"a")], timestamp=NOW))

    async def produce(topic_id: bytes) -> ProduceResponse:
        data = TopicProduceData(topic_id=topic_id, partition_data=[PartitionProduceData(index=0, records=batch)])
        return await talk.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data]), 13, ProduceResponse)

    known = await produce(topic.id)
    assert known.responses[0].topic_id == topic.id
    assert known.responses[0].partition_responses[0].base_offset == 0
    unknown = await produce(b"x" * 16)
    assert unknown.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_an_unknown_topic_or_partition_is_refused_and_the_others_are_written(talk: Talk) -> None:
    batch = memoryview(build_batch([NewRecord(key=None, value=b"a")], timestamp=NOW))
    data = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=index, records=batch)])
        for name, index in (("nope", 0), ("t", 7), ("t", 1))
    ]
    response = await talk.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data), 9, ProduceResponse)
    codes = [topic.partition_responses[0].error_code for topic in response.responses]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]


async def test_acks_other_than_minus_one_zero_and_one_are_refused(talk: Talk) -> None:
    assert (await talk.produce("t", b"a", acks=2)).error_code == ErrorCode.INVALID_REQUIRED_ACKS


async def test_acks_zero_gets_no_reply_and_the_record_is_there(talk: Talk) -> None:
    batch = memoryview(build_batch([NewRecord(key=None, value=b"a")], timestamp=NOW))
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(acks=0, timeout_ms=1000, topic_data=[data])
    assert await talk.ask_raw(talk.frame(request, 9)) is None
    assert talk.broker.topics.partition("t", 0).offsets.end == 1
    data.name = "nope"
    with pytest.raises(Malformed, match="UNKNOWN_TOPIC_OR_PARTITION"):
        await talk.ask_raw(talk.frame(request, 9))


async def test_clients_cannot_write_to_internal_topics(talk: Talk) -> None:
    talk.broker.internal_topic(GROUP_OFFSETS_TOPIC)
    answer = await talk.produce(GROUP_OFFSETS_TOPIC, b"a")
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_wrong_checksum_is_refused_and_nothing_is_written(talk: Talk) -> None:
    batch = bytearray(build_batch([NewRecord(key=None, value=b"abc")], timestamp=NOW))
    batch[-2] ^= 1
    answer = await talk.produce("t", batch=bytes(batch))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.CORRUPT_MESSAGE, -1)
    assert answer.error_message
    assert talk.broker.topics.partition("t", 0).offsets.end == 0


async def test_a_batch_over_the_limit_is_too_large(talk: Talk) -> None:
    answer = await talk.produce("t", b"x" * 1_100_000)
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_a_record_without_a_key_on_a_compacted_topic_is_named(talk: Talk) -> None:
    talk.broker.topics.create("c", 1, {"cleanup.policy": "compact"})
    batch = build_batch([NewRecord(key=b"k", value=b"1"), NewRecord(key=None, value=b"2")], timestamp=NOW)
    answer = await talk.produce("c", batch=batch)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    why = "Compacted topic cannot accept message without key in topic partition c-0"
    assert [(error.batch_index, error.batch_index_error_message) for error in answer.record_errors] == [(1, why)]
    assert answer.error_message == (
        "One or more records have been rejected due to 1 record errors in total, and only showing the first three "
        f"errors at most: [RecordError(batchIndex=1, message='{why}')]"
    )


async def test_large_batches_name_the_partition_too(talk: Talk) -> None:
    talk.broker.topics.create("c", 1, {"cleanup.policy": "compact"})
    batch = build_batch([NewRecord(key=None, value=b"v" * 1000) for _ in range(900)], timestamp=NOW)
    answer = await talk.produce("c", batch=batch)
    assert len(answer.record_errors) == 900
    assert answer.record_errors[899].batch_index_error_message == (
        "Compacted topic cannot accept message without key in topic partition c-0"
    )
    assert answer.error_message is not None
    assert " due to 900 record errors in total" in answer.error_message
    assert answer.error_message.count("RecordError(") == 3


async def test_a_repeated_idempotent_batch_gets_its_first_offset(talk: Talk) -> None:
    first = await talk.produce("t", b"a", producer=(7, 0, 0))
    await talk.produce("t", b"b", producer=(7, 0, 1))
    again = await talk.produce("t", b"a", producer=(7, 0, 0))
    assert (again.error_code, again.base_offset) == (0, first.base_offset)
    assert talk.broker.topics.partition("t", 0).offsets.end == 2
    gap = await talk.produce("t", b"c", producer=(7, 0, 5))
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_log_append_time_is_told_and_stored(talk: Talk) -> None:
    talk.broker.topics.create("l", 1, {"message.timestamp.type": "LogAppendTime"})
    answer = await talk.produce("l", b"a")
    assert answer.log_append_time_ms == NOW
    fetched = await talk.fetch("l", 0)
    batch = Batch.at(memoryview(bytes_of(fetched.responses[0].partitions[0])))
    assert batch.is_log_append_time
    assert batch.crc_ok()


async def test_a_transactional_batch_without_a_transactional_id_is_refused_whole(talk: Talk) -> None:
    batch = build_batch(
        [NewRecord(key=None, value=b"a")],
        timestamp=NOW,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    answer = await talk.produce("t", batch=batch)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
