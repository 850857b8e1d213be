"""What we write to `__consumer_offsets` is what Kafka would write, and what Kafka wrote we can read."""

from __future__ import annotations

import struct

import pytest

from broker_lite.coordinator import schemas
from broker_lite.coordinator.schemas import KINDS, Kind, OffsetCommitKey, OffsetCommitValue, read, record, tombstone
from broker_lite.errors import Malformed
from broker_lite.wire.layout import layout
from broker_lite.wire.schema import spec_of
from tests.wire.definitions import definitions, lines, versions
from tests.wire.test_against_kafka import ours

COORDINATOR = "org.apache.kafka:kafka-group-coordinator:4.3.1"


@pytest.mark.kafka
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.value.__name__)
def test_keys_and_values_are_as_kafka_defines_them(kind: Kind) -> None:
    for cls in (kind.key, kind.value):
        told = definitions(COORDINATOR)[cls.__name__]
        assert told["apiKey"] == kind.number
        assert list(versions(told["validVersions"])) == list(spec_of(cls).versions)
        for version in spec_of(cls).versions:
            assert (version in spec_of(cls).flexible) == (version in versions(told["flexibleVersions"]))
            mine = [(line.path, line.type, line.nullable, line.tag) for line in ours(layout(cls, version))]
            assert mine == [(line.path, line.type, line.nullable, line.tag) for line in lines(told, version)]


def test_a_commit_has_the_bytes_that_kafka_writes() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=7)
    value = OffsetCommitValue(offset=42, leader_epoch=3, metadata="m", commit_timestamp=1_700_000_000_000)
    written = record(key, value)
    assert written.key == b"\0\1\0\1g\0\1t\0\0\0\7"
    assert written.value == struct.pack(">hqihsq", 3, 42, 3, 1, b"m", 1_700_000_000_000)
    assert read(written.key, written.value) == (key, value)
    assert read(tombstone(key).key, None) == (key, None)


def test_offsets_of_the_oldest_kind_are_read_too() -> None:
    said = read(b"\0\0\0\1g\0\1t\0\0\0\7", struct.pack(">hqhsqq", 1, 42, 1, b"m", 5, 9))
    assert said is not None
    value = said[1]
    assert isinstance(value, OffsetCommitValue)
    assert (value.offset, value.leader_epoch, value.expire_timestamp) == (42, -1, 9)


def test_records_of_other_kinds_are_stepped_over() -> None:
    assert read(b"\0\x0b\0\1g", b"\0\0\0\0\0\1\0") is None


@pytest.mark.parametrize(
    "damaged", [(b"", b""), (b"\0\1", None), (b"\0\1\0\1g\0\1t\0\0\0\7", b"\0\3\0"), (b"\0", None)]
)
def test_damaged_records_are_named_as_such(damaged: tuple[bytes, bytes | None]) -> None:
    with pytest.raises(Malformed):
        schemas.read(*damaged)


def test_a_value_of_a_version_nobody_knows_is_named_as_such() -> None:
    with pytest.raises(Malformed):
        schemas.read(b"\0\1\0\1g\0\1t\0\0\0\7", b"\0\x63\0\0")
