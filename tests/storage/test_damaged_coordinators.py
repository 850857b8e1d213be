"""A damaged log of a coordinator: its groups are refused, or the start is; nobody is told less than was written.

Two things are as for any log.  The leader epoch of a batch lies outside its checksum and decides nothing.  And where
the stop was not clean and nothing was synced, a last batch that is not intact is a torn tail, which is cut and said.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker_lite.cli import main
from broker_lite.config.start import Durability, TopicAtStart
from broker_lite.coordinator.decision import Record
from broker_lite.coordinator.txns.state import State
from broker_lite.errors import BrokerError, ErrorCode
from broker_lite.ids import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from broker_lite.log import layout
from broker_lite.records.build import build_lines
from broker_lite.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.apis.test_transactions import Producer
from tests.broker.test_groups import commit, committed
from tests.broker.test_journal_damage import files, flipped, starts
from tests.support.talk import NOW, talking

MODES = pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])
STOPS = pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
ONE_EACH = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
UNCHECKED = [*range(8), *range(12, 16)]
"""Bytes of a batch that its checksum does not cover: offset and leader epoch."""
TOPICS = [TopicAtStart("t", 2, {})]


def killed(root: Path) -> None:
    (root / layout.CLEAN_SHUTDOWN).unlink()


def log_of(root: Path, topic: str) -> Path:
    return root / f"{topic}-0" / layout.file_name(0, layout.LOG)


def restored(root: Path, kept: dict[str, bytes]) -> None:
    for path in root.rglob("*"):
        if path.is_file() and path.name != layout.LOCK and str(path.relative_to(root)) not in kept:
            path.unlink()
    for name, data in kept.items():
        (root / name).write_bytes(data)


# ---- groups


@pytest.mark.slow
@MODES
@STOPS
async def test_of_damaged_offsets_nobody_is_told_too_little(
    tmp_path: Path, durability: Durability, clean: bool
) -> None:
    async with talking(tmp_path, durability=durability, settings=ONE_EACH, topics=TOPICS) as talk:
        for offset in (5, 6, 7):
            commit(talk, offset)
            commit(talk, offset, group=f"other{offset}")
    if not clean:
        killed(tmp_path)
    path = log_of(tmp_path, GROUP_OFFSETS_TOPIC)
    whole, kept = path.read_bytes(), files(tmp_path)
    refused = 0
    for byte in [*range(8), *range(8, len(whole), 13)]:
        start = max(at for at in starts(whole) if at <= byte)
        path.write_bytes(flipped(whole, byte, byte % 8))
        with capture_logs() as lines:
            async with talking(tmp_path, durability=durability, settings=ONE_EACH) as talk:
                events = {line["event"] for line in lines}
                if "groups.load_failed" in events:
                    refused += 1
                    with pytest.raises(BrokerError) as error:
                        committed(talk)
                    assert error.value.code == ErrorCode.NOT_COORDINATOR
                else:
                    assert committed(talk) == 7, byte
                    torn = start == starts(whole)[-1] and "log.torn_tail_cut" in events
                    assert torn or byte - start in UNCHECKED, byte
        restored(tmp_path, kept)
    assert refused > len(range(0, len(whole), 13)) // 2


async def test_what_a_client_hears_of_groups_that_cannot_be_read(tmp_path: Path) -> None:
    async with talking(tmp_path, durability=Durability.OS, topics=TOPICS) as talk:
        for group in ("broken", "whole"):
            commit(talk, 5, group=group)
            commit(talk, 6, group=group)
        index = talk.broker.groups.partition_of("broken")
        assert index != talk.broker.groups.partition_of("whole")
    path = tmp_path / f"{GROUP_OFFSETS_TOPIC}-{index}" / layout.file_name(0, layout.LOG)
    whole = path.read_bytes()
    path.write_bytes(flipped(whole, 80))
    async with talking(tmp_path, durability=Durability.OS) as talk:
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        groups = [OffsetFetchRequestGroup(group_id=name, topics=topics) for name in ("broken", "whole")]
        answer = await talk.ask(OffsetFetchRequest(groups=groups), 8, OffsetFetchResponse)
        told = {group.group_id: group for group in answer.groups}
        assert told["broken"].error_code == ErrorCode.NOT_COORDINATOR
        assert told["whole"].topics[0].partitions[0].committed_offset == 6
        with pytest.raises(BrokerError) as refused:
            commit(talk, 7, group="broken")
        assert refused.value.code == ErrorCode.NOT_COORDINATOR
        assert [group.id for group in talk.broker.groups] == ["whole"]
    path.write_bytes(whole)
    async with talking(tmp_path, durability=Durability.OS) as talk:
        assert committed(talk, group="broken") == 6


async def test_a_commit_that_a_later_version_wrote_is_not_left_out(tmp_path: Path) -> None:
    async with talking(tmp_path, durability=Durability.OS, settings=ONE_EACH, topics=TOPICS) as talk:
        commit(talk, 5)
        partition = talk.broker.topics.partition(GROUP_OFFSETS_TOPIC, 0)
        key = b"\0\1\0\1g\0\1t\0\0\0\0"
        partition.append_internal(build_lines([Record(key, b"\0\x7f\0\0")], timestamp=NOW), now_ms=NOW)
    async with talking(tmp_path, durability=Durability.OS, settings=ONE_EACH) as talk:
        with pytest.raises(BrokerError) as refused:
            committed(talk)
        assert refused.value.code == ErrorCode.NOT_COORDINATOR


async def test_a_record_of_a_kind_that_is_not_kept_is_passed_over(tmp_path: Path) -> None:
    """Share groups and streams groups have their records there, too."""
    async with talking(tmp_path, durability=Durability.OS, settings=ONE_EACH, topics=TOPICS) as talk:
        commit(talk, 5)
        partition = talk.broker.topics.partition(GROUP_OFFSETS_TOPIC, 0)
        partition.append_internal(build_lines([Record(b"\0\x7fx", b"\0\0")], timestamp=NOW), now_ms=NOW)
    async with talking(tmp_path, durability=Durability.OS, settings=ONE_EACH) as talk:
        assert committed(talk) == 5


# ---- transactions


@pytest.mark.slow
@MODES
@STOPS
async def test_with_a_damaged_transaction_log_there_is_no_start(
    tmp_path: Path, durability: Durability, clean: bool
) -> None:
    async with talking(tmp_path, durability=durability, settings=ONE_EACH, topics=TOPICS) as talk:
        for number in range(3):
            producer = Producer(talk, f"id{number}", new=True)
            await producer.init()
            await producer.send(b"x", partition=number % 2)
            if number == 1:
                await producer.end(commit=True)
    if not clean:
        killed(tmp_path)
    path = log_of(tmp_path, TRANSACTION_STATE_TOPIC)
    whole, kept = path.read_bytes(), files(tmp_path)
    refused = 0
    for byte in [*range(8), *range(8, len(whole), 31)]:
        start = max(at for at in starts(whole) if at <= byte)
        path.write_bytes(flipped(whole, byte, byte % 8))
        with capture_logs() as lines:
            try:
                async with talking(tmp_path, durability=durability, settings=ONE_EACH) as talk:
                    torn = any(line["event"] == "log.torn_tail_cut" for line in lines)
                    assert byte - start in UNCHECKED or (torn and start == starts(whole)[-1]), byte
                    states = {one.id: one.state for one in talk.broker.transactions.coordinator}
                    assert states["id0"] is State.ONGOING
                    assert states["id1"] is State.COMPLETE_COMMIT
            except ExceptionGroup:
                refused += 1
        restored(tmp_path, kept)
    assert refused > len(range(0, len(whole), 31)) // 2


@MODES
async def test_the_refusal_names_the_log_and_fsck_makes_it_good(tmp_path: Path, durability: Durability) -> None:
    async with talking(tmp_path, durability=durability, settings=ONE_EACH, topics=TOPICS) as talk:
        for number in range(3):
            await Producer(talk, f"id{number}", new=True).init()
    killed(tmp_path)
    path = log_of(tmp_path, TRANSACTION_STATE_TOPIC)
    whole = path.read_bytes()
    path.write_bytes(flipped(whole, starts(whole)[1] + 70))
    (tmp_path / layout.RECOVERY_POINTS).unlink()
    with pytest.raises(ExceptionGroup) as refused:
        async with talking(tmp_path, durability=durability, settings=ONE_EACH):
            pass
    text = str(refused.value.exceptions[0])
    assert f"{TRANSACTION_STATE_TOPIC}-0: {path.name} is damaged at byte {starts(whole)[1]}" in text
    assert "broker-lite fsck" in text
    assert main(["fsck", str(tmp_path), "--truncate"]) == 0
    async with talking(tmp_path, durability=durability, settings=ONE_EACH) as talk:
        assert [one.id for one in talk.broker.transactions.coordinator] == ["id0"]
