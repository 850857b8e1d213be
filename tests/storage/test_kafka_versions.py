"""Data folders as Kafka 0.11.0.3 left it, stopped, and 2.8.2, killed: the first with batches, the last with ZooKeeper.

Each was filled with three partitions of every codec of its time, nulls, headers, committed, aborted and open
transactions, a deleted beginning, a compacted topic and a group; both had segments of 20 kB.
"""

from __future__ import annotations

import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_lite.config.start import Durability
from broker_lite.ids import Offset
from broker_lite.records.record import records_of
from broker_lite.wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from tests.support.talk import Talk, talking

FOLDERS = Path(__file__).parent / "folders"
CODECS = {"0.11.0.3": ("none", "gzip", "snappy", "lz4"), "2.8.2": ("none", "gzip", "snappy", "lz4", "zstd")}
TIME = 1_700_000_000_000
PARTITIONS = 3
DELETED = 25
Told = tuple[int, bytes | None, bytes | None, int]


@pytest.fixture(params=CODECS)
async def talk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Talk]:
    with tarfile.open(FOLDERS / f"kafka-{request.param}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    async with talking(tmp_path, durability=Durability.OS) as talk:
        talk.client_id = request.param
        yield talk


def expected(partition: int, codecs: tuple[str, ...]) -> list[tuple[bytes | None, bytes | None, int]]:
    told: list[tuple[bytes | None, bytes | None, int]] = []
    for number, codec in enumerate(codecs):
        for at in range(partition, 300, PARTITIONS):
            key = None if at % 7 == 0 else b"key-%d" % at
            value = None if at % 11 == 0 else f"{codec}-{at}".encode() * 20
            told.append((key, value, TIME + number * 1000 + at))
    for commit in (True, False, True):
        told += [(None, f"{commit}-{at}".encode(), TIME + 9000) for at in range(partition, 30, PARTITIONS)]
    if partition == 0:
        told.append((None, b"of an open transaction", TIME + 9500))
    return told


def stored(talk: Talk, topic: str, partition: int) -> list[Told]:
    batches = talk.broker.topics.partition(topic, partition).log.batches(Offset(0))
    return [
        (record.offset, record.key, record.value, record.timestamp)
        for batch in batches
        if not batch.is_control
        for record in records_of(batch)
    ]


@pytest.mark.parametrize("partition", range(PARTITIONS))
async def test_every_record_is_there(talk: Talk, partition: int) -> None:
    codecs = CODECS[talk.client_id]
    found = stored(talk, "orders", partition)
    assert [one[1:] for one in found] == expected(partition, codecs)
    plain = 300 // PARTITIONS * len(codecs)
    assert [offset for offset, *_ in found[:plain]] == list(range(plain))
    offsets = talk.broker.topics.partition("orders", partition).offsets
    assert offsets.start == (DELETED if partition == 1 else 0)
    # three transactions of ten records and a marker each; in one partition one record of a transaction is left open
    assert offsets.end == plain + 33 + (partition == 0)
    assert offsets.stable == plain + 33


async def test_readers_of_committed_records_are_told_what_was_aborted(talk: Talk) -> None:
    begin = 100 * len(CODECS[talk.client_id]) + 11
    (answer,) = (await talk.fetch("orders", begin, partition=2, committed=True)).responses[0].partitions
    assert answer.error_code == 0
    assert answer.aborted_transactions is not None
    assert [one.first_offset for one in answer.aborted_transactions] == [begin]


async def test_a_compacted_topic_has_the_last_value_of_every_key(talk: Talk) -> None:
    found = {key: value for _, key, value, _ in stored(talk, "kept", 0)}
    assert found == {b"k%d" % (at % 20): b"v%d" % at * 10 for at in range(480, 500)}


async def test_the_group_is_where_it_was(talk: Talk) -> None:
    asked = OffsetFetchRequestTopic(name="orders", partition_indexes=list(range(PARTITIONS)))
    answer = await talk.ask(OffsetFetchRequest(group_id="readers", topics=[asked]), 5, OffsetFetchResponse)
    assert [one.committed_offset for one in answer.topics[0].partitions] == [50, 51, 52]


async def test_new_records_go_behind_the_old_ones_also_after_a_restart(talk: Talk, tmp_path: Path) -> None:
    end = talk.broker.topics.partition("orders", 1).offsets.end
    answer = await talk.produce("orders", b"new", partition=1)
    assert (answer.error_code, answer.base_offset) == (0, end)
    assert stored(talk, "orders", 1)[-1][::2] == (end, b"new")
