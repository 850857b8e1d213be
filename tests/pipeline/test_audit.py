"""The audit finds each fault that is put into a log, wherever tasks are cut, and nothing in a log that is sound."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker_lite.log.layout import HIGH_WATERMARKS, INDEX, LOG, LOG_STARTS, file_name, format_offsets
from broker_lite.pipeline import telling
from broker_lite.pipeline.audit import Report, audit
from broker_lite.pipeline.looking import look
from broker_lite.pipeline.options import read_options
from broker_lite.pipeline.remote import Remote
from broker_lite.pipeline.scan import scan
from broker_lite.records.build import sealed
from tests.conftest import BrokerFactory
from tests.pipeline import filling, folders
from tests.pipeline.folders import Written

Found = set[tuple[str, str, int | None]]
Fault = Callable[[Written], None]
TASKS = (None, "2", "7", "31")
"""How many tasks share a partition: as few as can be, or cut at offsets that no batch begins with."""


def audited(data: Path, tasks: str | None = None, **options: object) -> Report:
    told = {"path": str(data)} | ({} if tasks is None else {"minPartitions": tasks})
    return audit(read_options(told, streaming=False), lambda all_: map(look, all_), **options)  # type: ignore[arg-type]


def kinds(report: Report) -> Found:
    return {(one.kind, one.weight, one.offset) for one in report.findings}


def reseal(batch: bytearray) -> None:
    batch[:] = sealed(batch)


def flip_a_bit(log: Written) -> None:
    log.batches[2][70] ^= 1


def lose_a_batch(log: Written) -> None:
    del log.batches[3]


def lose_the_last_batch(log: Written) -> None:
    del log.batches[5]


def lose_the_first_batch(log: Written) -> None:
    del log.batches[0]


def repeat_a_sequence(log: Written) -> None:
    log.add(5, producer=3, sequence=25)


def jump_a_sequence(log: Written) -> None:
    log.add(5, producer=3, sequence=40)


def write_offsets_twice(log: Written) -> None:
    log.batches[4][:8] = (18).to_bytes(8, "big")


def zero_a_batch(log: Written) -> None:
    log.batches[2] = bytearray(len(log.batches[2]))


def cut_the_tail(log: Written) -> None:
    del log.batches[5][-10:]


def claim_too_few_records(log: Written) -> None:
    log.batches[1][57:61] = (3).to_bytes(4, "big")
    reseal(log.batches[1])


def turn_the_leader_epoch_back(log: Written) -> None:
    for batch, epoch in zip(log.batches, (0, 2, 2, 1, 1, 3), strict=True):
        batch[12:16] = epoch.to_bytes(4, "big")


def turn_log_append_time_back(log: Written) -> None:
    for batch, back in zip(log.batches, (0, 0, 900, 0, 1900, 0), strict=True):
        batch[22] |= 8
        batch[35:43] = (int.from_bytes(batch[35:43], "big") - back).to_bytes(8, "big")
        reseal(batch)


def leave_a_transaction_open(log: Written) -> None:
    log.add(2, producer=9, sequence=0, transactional=True)


def lose_a_marker(log: Written) -> None:
    log.add(2, producer=9, sequence=0, transactional=True)
    log.add(2, producer=9, sequence=0, transactional=True, producer_epoch=1).end(9, commit=True)


def end_a_transaction_that_never_began(log: Written) -> None:
    log.end(9, commit=False)


FAULTS: dict[Fault, Found] = {
    flip_a_bit: {("checksum", "fault", 10), ("sequence gap", "unexplained", 15)},
    lose_a_batch: {("gap", "unexplained", 15), ("sequence gap", "unexplained", 20)},
    lose_the_last_batch: {("gap", "unexplained", 25)},
    lose_the_first_batch: {("gap", "unexplained", 0), ("sequence gap", "unexplained", 5)},
    repeat_a_sequence: {("duplicate", "fault", 30)},
    jump_a_sequence: {("sequence gap", "unexplained", 30)},
    write_offsets_twice: {("overlap", "fault", 18), ("gap", "unexplained", 23)},
    zero_a_batch: {("damage", "fault", None), ("gap", "unexplained", 10), ("sequence gap", "unexplained", 15)},
    cut_the_tail: {("damage", "fault", None), ("gap", "unexplained", 25)},
    claim_too_few_records: {("gap", "unexplained", 5)},
    turn_the_leader_epoch_back: {("leader epoch", "fault", 15)},
    turn_log_append_time_back: {("disorder", "fault", 10)},
    leave_a_transaction_open: {("open transaction", "note", 30)},
    lose_a_marker: {("endless transaction", "unexplained", 30)},
    end_a_transaction_that_never_began: {("empty transaction", "note", 30)},
}


@pytest.mark.parametrize("tasks", TASKS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_each_fault_is_found_and_nothing_else(fault: Fault, tasks: str | None, tmp_path: Path) -> None:
    log = folders.idempotent(tmp_path, "orders")
    fault(log)
    folders.finish(tmp_path, [log, folders.idempotent(tmp_path, "clean")])
    report = audited(tmp_path, tasks)
    assert kinds(report) == FAULTS[fault]
    assert {one.topic for one in report.findings} == {"orders"}
    assert report.sound == all(weight == "note" for _, weight, _ in FAULTS[fault])


@pytest.mark.parametrize("tasks", TASKS)
def test_a_sound_log_has_no_findings(tasks: str | None, tmp_path: Path) -> None:
    log = folders.idempotent(tmp_path, "orders")
    for producer, commit in ((7, True), (8, False)):
        log.add(4, producer=producer, sequence=0, transactional=True).end(producer, commit=commit)
    folders.finish(tmp_path, [log])
    report = audited(tmp_path, tasks)
    assert not report.findings
    assert report.outcomes == {"commit": 1, "abort": 1}
    (facts,) = report.partitions
    assert (facts.start, facts.end, facts.batches, facts.records) == (0, 40, 10, 38)
    assert sum(row[2] for row in report.volume) == facts.bytes
    assert sum(row[3] for row in report.volume) == 38


def segmented(data: Path, log: Written, *, at: int = 3) -> None:
    """The log in two files, each with an index as a broker writes it: the last offset of a batch, and where it lies."""
    folders.finish(data, [log])
    for first, batches in ((0, log.batches[:at]), (5 * at, log.batches[at:])):
        (log.folder / file_name(first, LOG)).write_bytes(b"".join(batches))
        position, entries = 0, b""
        for number, batch in enumerate(batches):
            if number:
                entries += (5 * number + 4).to_bytes(4, "big") + position.to_bytes(4, "big")
            position += len(batch)
        (log.folder / file_name(first, INDEX)).write_bytes(entries)


@pytest.mark.parametrize("tasks", TASKS)
def test_offsets_that_are_missing_between_two_segments_are_found(tasks: str | None, tmp_path: Path) -> None:
    log = folders.idempotent(tmp_path, "orders")
    segmented(tmp_path, log)
    assert not audited(tmp_path, tasks).findings
    first = log.folder / file_name(0, LOG)
    first.write_bytes(first.read_bytes()[: 2 * len(log.batches[0])])
    assert kinds(audited(tmp_path, tasks)) == {("gap", "unexplained", 10), ("sequence gap", "unexplained", 15)}
    first.unlink()
    # Now the log begins with the second file, and what lies before was deleted with right.
    assert not audited(tmp_path, tasks).findings


@pytest.mark.parametrize("tasks", TASKS)
@pytest.mark.parametrize("shift", [7, -1])
def test_an_index_that_lies_is_found_and_misleads_nobody(tasks: str | None, shift: int, tmp_path: Path) -> None:
    log = folders.idempotent(tmp_path, "orders")
    segmented(tmp_path, log)
    index = log.folder / file_name(0, INDEX)
    size = len(log.batches[0])
    # Either into the middle of a batch, or to a batch that begins behind the offset.
    wrong = size + shift if shift > 0 else 2 * size
    index.write_bytes((9).to_bytes(4, "big") + wrong.to_bytes(4, "big"))
    assert kinds(audited(tmp_path, tasks)) == {("index", "fault", None)}


def test_gaps_in_a_compacted_topic_are_meant(tmp_path: Path) -> None:
    log = folders.idempotent(tmp_path, "orders")
    lose_a_batch(log)
    claim_too_few_records(log)
    folders.finish(tmp_path, [log])
    assert not audited(tmp_path, compacted=["orders"]).findings
    assert not audited(tmp_path).sound


@pytest.mark.slow
def test_whether_a_gap_is_a_fault_is_known_from_the_brokers_journal_and_from_the_broker(
    broker_process: BrokerFactory,
) -> None:
    broker = broker_process("--set", "log.cleanup.policy=compact")
    policies = {"kept": "delete", "compacted": "compact", "both": "compact,delete"}
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for topic, policy in policies.items():
        filling.create(broker.bootstrap, topic, partitions=1, **{"cleanup.policy": policy})
        for letter in "abc":
            producer.produce(topic, letter, letter)
            assert producer.flush(30) == 0
        filling.wait_for_checkpoint(broker.data, broker.bootstrap, topic, 1)
    wire = {"bootstrap": broker.bootstrap, "subscribe": ",".join(policies)}
    report = audit(read_options(wire, streaming=False), lambda tasks: map(look, tasks))
    assert (len(report.partitions), report.findings) == (3, [])
    with Remote(broker.bootstrap) as remote:
        remote.create("unsaid", 1)
        told = {topic: (remote.configs(topic) or {})["cleanup.policy"] for topic in (*policies, "unsaid")}
    assert told == policies | {"unsaid": "compact"}
    broker.stop()
    for topic in policies:
        (log,) = (broker.data / f"{topic}-0").glob("*.log")
        found = scan(log.read_bytes(), log.name)
        log.write_bytes(bytes(found.bytes_of(0)) + bytes(found.bytes_of(2)))
    assert {(one.topic, one.kind, one.weight) for one in audited(broker.data).findings} == {("kept", "gap", "fault")}


@pytest.mark.parametrize("tasks", TASKS)
def test_a_log_that_starts_inside_a_batch_is_sound(tasks: str | None, tmp_path: Path) -> None:
    log = folders.idempotent(tmp_path, "orders")
    folders.finish(tmp_path, [log])
    (tmp_path / LOG_STARTS).write_bytes(format_offsets({log.one: 12}))
    report = audited(tmp_path, tasks)
    assert not report.findings
    assert report.partitions[0].batches == 4


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    faults=st.lists(st.sampled_from([one for one in FAULTS if "tail" not in one.__name__]), max_size=4),
    tasks=st.integers(2, 40),
)
def test_where_tasks_are_cut_changes_nothing(
    faults: list[Fault], tasks: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = tmp_path_factory.mktemp("cut")
    log = folders.idempotent(data, "orders")
    for fault in sorted(set(faults), key=[*FAULTS].index):
        try:
            fault(log)
        except (IndexError, ValueError):  # another fault took away what this one is about
            return
    folders.finish(data, [log])
    one, many = audited(data), audited(data, str(tasks))
    assert kinds(many) == kinds(one)
    assert telling.as_json(many) == telling.as_json(one)


def test_what_is_too_much_to_tell_is_counted(tmp_path: Path) -> None:
    log = Written(tmp_path, "orders")
    for _ in range(1300):
        log.add(1)
        log.batches[-1][-1] ^= 1
    folders.finish(tmp_path, [log])
    report = audited(tmp_path)
    assert (len(report.findings), report.untold) == (1000, 300)
    assert "and 960 more; --json tells each" in telling.as_text(report)
    assert "and 300 more that are only counted" in telling.as_text(report)
    assert json.loads(telling.as_json(report))["untold"] == 300


def test_a_partition_without_any_batch_left_is_lost_whole(tmp_path: Path) -> None:
    log = Written(tmp_path, "orders")
    folders.finish(tmp_path, [log])
    (tmp_path / HIGH_WATERMARKS).write_bytes(format_offsets({log.one: 12}))
    assert kinds(audited(tmp_path)) == {("gap", "unexplained", 0)}
