"""A restart knows of producers and transactions what was known before, however the batches lie in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.ids import Offset
from broker_lite.log.slice import FileSlice
from broker_lite.partition import replay
from broker_lite.partition.partition import Partition
from broker_lite.partition.replay import State, restore
from broker_lite.records.batch import Batch, walk
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.control import build_marker, read_marker
from tests.partition.house import NOW, House

DAY = 86_400_000


def data(producer: int, sequence: int, size: int = 20, *, transactional: bool = True) -> bytes:
    return build_batch(
        [NewRecord(None, b"x" * size)],
        timestamp=NOW,
        producer_id=producer,
        producer_epoch=1,
        base_sequence=sequence,
        transactional=transactional,
    )


def filled(folder: Path) -> Partition:
    """Two producers, one of which goes on; somebody without a name; long and short batches; and a control batch that
    is no marker."""
    partition = House(folder).partition

    def write(batch: bytes) -> None:
        partition.append_internal(batch, now_ms=NOW)

    write(build_batch([NewRecord(b"k", b"v")] * 3, timestamp=NOW))
    for number in range(40):
        write(data(7, number, 20 if number % 10 else 300_000))
        write(data(8, number))
        write(build_batch([NewRecord(b"k", b"v")], timestamp=NOW))
        partition.append_marker(7, 1, commit=number % 3 > 0, coordinator_epoch=number, now_ms=NOW)
        if number % 2:
            partition.append_marker(8, 1, commit=number % 4 > 1, coordinator_epoch=0, now_ms=NOW)
    write(data(9, 0, transactional=False))
    write(data(7, 40))
    return partition


def by_hand(partition: Partition) -> State:
    """One batch after the other, as they are read."""
    state = State(partition.log)
    state.aborted = []
    for batch in partition.log.batches(Offset(0)):
        if not batch.has_producer:
            continue
        header = (
            batch.base_offset, batch.size - 12, 0, 2, 0, batch.attributes, batch.last_offset_delta, 0,
            batch.max_timestamp, batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.count,
        )  # fmt: skip
        state.apply_old((header, bytes(batch.buf), 0))
    return state


def facts(state: State) -> object:
    return sorted((producer_id, repr(known)) for producer_id, known in state.producers), state.transactions.open_since()


@pytest.mark.parametrize("chunk", [100, 1000, 5000, replay.CHUNK])
def test_a_replay_finds_what_was_written(tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "CHUNK", chunk)
    partition = filled(tmp_path)
    aborted = partition.log.aborted.entries
    assert len(aborted) == 24
    state, _ = restore(partition.log, now_ms=NOW, expiration_ms=DAY)
    assert facts(state) == facts(by_hand(partition))
    assert state.transactions.open_since() == partition.open_transactions() == {7: partition.offsets.end - 1}
    assert partition.log.aborted.entries == aborted, "what the index has already is not added again"


def test_an_index_of_aborted_transactions_that_is_gone_is_made_again(tmp_path: Path) -> None:
    partition = filled(tmp_path)
    aborted = partition.log.aborted.entries
    (tmp_path / "orders-0" / "00000000000000000000.txnindex").unlink()
    again = House(tmp_path).partition
    assert again.log.aborted.entries == aborted
    once_more = House(tmp_path).partition
    assert once_more.log.aborted.entries == aborted


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_read_from_its_bytes_as_the_codec_reads_it(commit: bool) -> None:
    marker = build_marker(5, 3, commit=commit, coordinator_epoch=77, timestamp=NOW)
    said = read_marker(Batch.at(marker))
    assert said is not None
    assert replay._marker_at(b"??" + marker, 2, len(marker)) == (said.commit, said.coordinator_epoch) == (commit, 77)
    other = build_batch([NewRecord(b"\0\0\0\5", b"123456")], timestamp=NOW, control=True, producer_id=5)
    assert replay._marker_at(other, 0, len(other)) is None


@pytest.mark.parametrize("at_most", [1, 500, 5_000, 1 << 20])
def test_a_reader_is_told_of_what_was_aborted_in_its_slice_and_of_nothing_after_it(
    tmp_path: Path, at_most: int
) -> None:
    partition = filled(tmp_path)
    aborted = partition.log.aborted.entries
    offset = Offset(0)
    while offset < partition.offsets.stable:
        given = partition.read(offset, max_bytes=at_most, committed=True, at_least_one=True)
        assert given.records is not None
        after = max(batch.next_offset for batch in walk(given.records.read_all()))
        assert partition.log.finder.end_of(given.records, offset) == after
        told = [entry for entry in aborted if entry.last_offset >= offset and entry.first_offset < after]
        assert given.aborted == told
        given.records.release()
        assert partition.log.finder.end_of(FileSlice.read_now(partition.log.segments[0].file, 0, 88), Offset(0)) == 3
        offset = Offset(after)
