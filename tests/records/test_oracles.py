"""Batches of libraries that we did not write, in both directions, with every codec."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from broker_lite.records.batch import Batch
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.check import AppendRules, check_client_batch
from broker_lite.records.compression import Codec
from broker_lite.records.record import Record, records_of

NOW = 1_714_000_000_000
RECORDS = [
    NewRecord(b"key", b"value", (), NOW),
    NewRecord(None, b"x" * 100_000, (("trace", b"1"), ("none", None)), NOW + 100),
    NewRecord(b"", None, (), NOW - 70),
    *(NewRecord(str(at).encode(), b"v" * at, (), NOW + at) for at in range(200)),
]
EXPECTED = [Record(at, one.timestamp or 0, one.key, one.value, one.headers) for at, one in enumerate(RECORDS)]
BUILDERS = {"kafka-python": KafkaPythonBuilder, "aiokafka": AioBuilder}
READERS = {"kafka-python": KafkaPythonBatch, "aiokafka": AioBatch}


def built_by(builder: type[AioBuilder] | type[KafkaPythonBuilder], codec: Codec) -> bytes:
    batch = builder(2, int(codec), 1, 4711, 3, 17, 1 << 24)
    for at, one in enumerate(RECORDS):
        assert batch.append(at, one.timestamp, one.key, one.value, list(one.headers)) is not None
    return bytes(batch.build())


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("library", BUILDERS)
def test_what_others_build_is_accepted_and_read(library: str, codec: Codec) -> None:
    came = built_by(BUILDERS[library], codec)
    for rules in (AppendRules(), AppendRules(strict=True)):
        batch = check_client_batch(memoryview(came), api_version=9, rules=rules, now_ms=NOW).batch
        assert bytes(batch.buf) == came
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4711, 3, 17)
    assert batch.is_transactional
    assert batch.codec == codec
    assert (batch.base_timestamp, batch.max_timestamp) == (NOW, NOW + 199)
    assert list(records_of(batch)) == EXPECTED


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("library", READERS)
def test_what_we_build_is_read_by_others(library: str, codec: Codec) -> None:
    ours = build_batch(
        RECORDS, timestamp=NOW, codec=codec, producer_id=9, producer_epoch=1, base_sequence=5, base_offset=40
    )
    theirs = READERS[library](ours)
    assert theirs.validate_crc()
    assert (theirs.base_offset, theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (40, 9, 1, 5)
    read = [(one.offset - 40, one.timestamp, one.key, one.value, tuple(one.headers)) for one in theirs]
    assert read == [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in EXPECTED]


@pytest.mark.parametrize("library", BUILDERS)
def test_uncompressed_batches_are_the_same_byte_for_byte(library: str) -> None:
    theirs = Batch.at(built_by(BUILDERS[library], Codec.NONE))
    ours = build_batch(
        RECORDS,
        timestamp=NOW,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=17,
        transactional=True,
        leader_epoch=theirs.leader_epoch,
    )
    assert ours == bytes(theirs.buf)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_what_we_recompress_is_read_by_others(codec: Codec) -> None:
    came = memoryview(built_by(KafkaPythonBuilder, Codec.NONE))
    rules = AppendRules(compression=codec)
    stored = check_client_batch(came, api_version=9, rules=rules, now_ms=NOW).batch
    for reader in READERS.values():
        read = [
            (one.offset, one.timestamp, one.key, one.value, tuple(one.headers)) for one in reader(bytes(stored.buf))
        ]
        assert read == [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in EXPECTED]
