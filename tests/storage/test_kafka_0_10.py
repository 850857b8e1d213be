"""A data folder as Kafka 0.10.2.2 left it.

It was filled by kafka-python 2.0.2 with 300 messages of each codec: `v1` as the broker was (magic 1), `v0` with
`log.message.format.version=0.9.0.1` (magic 0).  Two groups have committed the end of their topic.
"""

from __future__ import annotations

import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_lite.config.start import Durability
from broker_lite.log import layout
from broker_lite.records.batch import walk
from broker_lite.records.legacy import messages_of, old_records
from broker_lite.records.record import records_of
from broker_lite.wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from tests.support.talk import Talk, talking

FOLDER = Path(__file__).parent / "folders" / "kafka-0.10.2.tar.xz"
CODECS = ("none", "gzip", "snappy", "lz4")
EXPECTED = [
    (at, f"key-{at % 300}".encode(), f"{CODECS[at // 300]}-{at % 300}".encode()) for at in range(300 * len(CODECS))
]


@pytest.fixture(params=["stopped", "killed"])
async def talk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Talk]:
    with tarfile.open(FOLDER) as packed:
        packed.extractall(tmp_path, filter="data")
    if request.param == "killed":
        (tmp_path / layout.CLEAN_SHUTDOWN).unlink()
    async with talking(tmp_path, durability=Durability.OS) as talk:
        yield talk


async def read(talk: Talk, topic: str, version: int, offset: int) -> list[tuple[int, bytes | None, bytes | None]]:
    found: list[tuple[int, bytes | None, bytes | None]] = []
    while offset < len(EXPECTED):
        (answer,) = (await talk.fetch(topic, offset, version=version)).responses[0].partitions
        assert answer.error_code == 0
        data = bytes(memoryview(answer.records))  # type: ignore[arg-type]
        if version >= 4:
            new = [(one.offset, one.key, one.value) for batch in walk(data) for one in records_of(batch)]
        else:
            new = [
                (one.offset, bytes(one.key or b""), bytes(one.value or b""))
                for message in messages_of(data)
                for one in old_records(message)
            ]
        found += [one for one in new if one[0] >= offset]
        assert found, f"nothing from {offset} on"
        offset = found[-1][0] + 1
    return found


@pytest.mark.parametrize("version", [0, 2, 4, 11])
@pytest.mark.parametrize("topic", ["v0", "v1"])
async def test_every_version_of_fetch_reads_it_from_any_offset(talk: Talk, topic: str, version: int) -> None:
    for offset in (0, 1, 299, 450, 600, 777, 1199):
        assert await read(talk, topic, version, offset) == EXPECTED[offset:]


async def test_new_records_go_behind_the_old_ones(talk: Talk) -> None:
    answer = await talk.produce("v0", b"new")
    assert (answer.error_code, answer.base_offset) == (0, 1200)
    assert (await read(talk, "v0", 11, 1100))[-1] == (1200, None, b"new")


@pytest.mark.parametrize(("topic", "group"), [("v0", "oldgroup0"), ("v1", "oldgroup")])
async def test_groups_are_where_they_were(talk: Talk, topic: str, group: str) -> None:
    request = OffsetFetchRequest(group_id=group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])])
    response = await talk.ask(request, 5, OffsetFetchResponse)
    assert response.topics[0].partitions[0].committed_offset == 1200
