"""The journal: what was written is true after a restart, whole decisions only, and the file stays small."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker_lite.broker.journal import A_BATCH, FEW, FOLDER, Change, Journal
from broker_lite.log.disk import RealDisk
from tests.crash.faulty_disk import FaultyDisk, PowerOff

NOW = 1_700_000_000_000


def opened(folder: Path) -> Journal:
    return Journal.open(folder, RealDisk(), now_ms=NOW, sync=False)


def state(journal: Journal) -> dict[tuple[str, str], object]:
    found: dict[tuple[str, str], object] = {}
    for change in journal.replay():
        if change.value is None:
            found.pop((change.kind, change.name), None)
        else:
            found[change.kind, change.name] = dict(change.value)
    return found


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in (folder / FOLDER).glob("*.log"))


def test_a_change_is_there_after_a_restart_and_a_later_one_counts(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.write([Change("topic", "a", {"n": 1}), Change("topic", "b", {"n": 2})], NOW)
    journal.write([Change("topic", "a", {"n": 3}), Change("topic", "b", None)], NOW)
    journal.close()
    assert state(opened(tmp_path)) == {("topic", "a"): {"n": 3}}


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_crash_in_the_second_change_keeps_the_first_and_nothing_of_the_second(tmp_path: Path, cut: int) -> None:
    journal = opened(tmp_path)
    journal.write([Change("topic", "a", {"n": 1})], NOW)
    journal.write([Change("topic", "b", {"n": 2}), Change("topic", "c", {"n": 3})], NOW)
    (file,) = (tmp_path / FOLDER).glob("*.log")
    file.write_bytes(file.read_bytes()[:-cut])
    assert state(opened(tmp_path)) == {("topic", "a"): {"n": 1}}


def test_it_stays_small_however_often_things_change(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    assert state(journal) == {}
    for number in range(20 * FEW):
        journal.write([Change("topic", f"t{number % 10}", {"n": number})], NOW)
    assert size(tmp_path) < 500 * FEW
    journal.close()
    found = state(opened(tmp_path))
    assert found == {("topic", f"t{number % 10}"): {"n": number} for number in range(20 * FEW - 10, 20 * FEW)}


def test_compaction_keeps_everything_that_is_true_in_as_many_batches_as_it_takes(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    everything = [Change("topic", f"t{number}", {"n": number}) for number in range(A_BATCH + 500)]
    journal.write(everything, NOW)
    journal.compact(NOW)
    journal.write([Change("topic", "after", {"n": 1})], NOW)
    journal.close()
    found = state(opened(tmp_path))
    assert len(found) == len(everything) + 1
    assert found["topic", "t7"] == {"n": 7}


def test_a_crash_after_the_snapshot_and_before_the_old_files_are_gone_changes_nothing(tmp_path: Path) -> None:
    journal = opened(tmp_path / "a")
    journal.write([Change("topic", "a", {"n": 1}), Change("topic", "b", {"n": 1})], NOW)
    journal.write([Change("topic", "a", None)], NOW)
    shutil.copytree(tmp_path / "a" / FOLDER, tmp_path / "old")
    journal.compact(NOW)
    journal.close()
    for file in (tmp_path / "old").glob("*.log"):
        target = tmp_path / "a" / FOLDER / file.name
        if not target.exists():
            shutil.copy(file, target)
    assert len(list((tmp_path / "a" / FOLDER).glob("*.log"))) == 2
    assert state(opened(tmp_path / "a")) == {("topic", "b"): {"n": 1}}


def test_the_power_may_go_at_any_moment_of_a_compaction(tmp_path: Path) -> None:
    moment = survived = 0
    while True:
        moment += 1
        folder = tmp_path / str(moment)
        disk = FaultyDisk()
        journal = Journal.open(folder, disk, now_ms=NOW, sync=True)
        journal.write([Change("topic", "a", {"n": 1}), Change("topic", "b", {"n": 1})], NOW)
        journal.write([Change("topic", "a", None), Change("topic", "c", {"n": 2})], NOW)
        disk.power_off_at = disk.calls + moment
        try:
            journal.compact(NOW)
        except PowerOff:
            survived += 1
        disk.lose(1, 2)
        assert state(opened(folder)) == {("topic", "b"): {"n": 1}, ("topic", "c"): {"n": 2}}, f"{moment=}"
        if not disk.dead:
            break
    assert survived > 3
