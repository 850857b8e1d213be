from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.log.disk import RealDisk
from broker_lite.log.epochs import LeaderEpochs
from tests.log.building import append, fill, open_log


@pytest.fixture
def epochs(tmp_path: Path) -> LeaderEpochs:
    made = LeaderEpochs(RealDisk(), tmp_path)
    for epoch, start in ((2, 10), (3, 20), (6, 30)):
        made.assign(epoch, start, sync=False)
    return made


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(-1, (-1, -1)), (6, (6, 99)), (7, (-1, -1)), (0, (0, 10)), (1, (1, 10)), (2, (2, 20)), (3, (3, 30)), (5, (3, 30))],
)
def test_an_epoch_ends_where_the_next_one_begins(epochs: LeaderEpochs, asked: int, answer: tuple[int, int]) -> None:
    assert epochs.end_offset_for(asked, 99) == answer


def test_without_epochs_nothing_is_known(tmp_path: Path) -> None:
    assert LeaderEpochs(RealDisk(), tmp_path).end_offset_for(0, 5) == (-1, -1)


def test_a_record_belongs_to_the_epoch_that_began_last_before_it(epochs: LeaderEpochs) -> None:
    assert [epochs.epoch_at(offset) for offset in (9, 10, 19, 20, 29, 30, 1000)] == [-1, 2, 2, 3, 3, 6, 6]


def test_an_epoch_without_records_is_replaced_by_the_next(epochs: LeaderEpochs, tmp_path: Path) -> None:
    epochs.assign(7, 30, sync=True)
    assert epochs.entries == [(2, 10), (3, 20), (7, 30)]
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n3\n2 10\n3 20\n7 30\n"
    assert LeaderEpochs.load(RealDisk(), tmp_path).entries == epochs.entries


def test_an_epoch_that_is_not_newer_changes_nothing(epochs: LeaderEpochs) -> None:
    epochs.assign(6, 50, sync=False)
    epochs.assign(4, 50, sync=False)
    assert epochs.entries == [(2, 10), (3, 20), (6, 30)]


def test_the_head_and_the_tail_can_go(epochs: LeaderEpochs) -> None:
    assert epochs.truncate_start(25)
    assert epochs.entries == [(3, 25), (6, 30)]
    assert not epochs.truncate_start(25)
    assert not epochs.truncate_end(30)
    assert epochs.truncate_end(28)
    assert epochs.entries == [(3, 25), (6, 28)]
    assert epochs.truncate_end(20)
    assert (epochs.entries, epochs.latest) == ([(6, 20)], 6)


def test_the_epoch_never_falls_however_often_the_process_is_killed(tmp_path: Path) -> None:
    for epoch in range(5):
        log = open_log(tmp_path / "t-0")
        assert log.epochs.latest == epoch - 1
        log.epochs.assign(epoch, log.end, sync=True)
        if epoch == 2:
            append(log, epoch=epoch)
        log.close(clean=False)
    assert open_log(tmp_path / "t-0").epochs.entries == [(2, 0), (4, 1)]


def test_deleting_records_moves_the_oldest_epoch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", segment_bytes=300)
    fill(log, 10, epoch=1)
    log.truncate_start(log.end)
    assert log.epochs.entries == [(1, log.end)]
