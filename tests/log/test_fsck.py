"""Every byte that is not what was written is named, and cut only when asked."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from broker_lite.cli import main
from broker_lite.ids import TopicPartition
from broker_lite.log import checkpoints, layout
from broker_lite.log.disk import RealDisk
from broker_lite.log.fsck import examine
from tests.log.building import append, fill, open_log, read_all

TP = TopicPartition("t", 0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A stopped broker's folder with one partition of several segments."""
    log = open_log(tmp_path / "t-0", segment_bytes=600)
    fill(log, 20)
    log.close(clean=True)
    checkpoints.write_offsets(RealDisk(), tmp_path / layout.RECOVERY_POINTS, {TP: log.end}, sync=False)
    checkpoints.mark_clean_shutdown(RealDisk(), tmp_path)
    return tmp_path


def logs(data: Path) -> list[Path]:
    return sorted((data / "t-0").glob("*.log"))


def flip(path: Path, byte: int) -> bytes:
    whole = bytearray(path.read_bytes())
    whole[byte] ^= 4
    path.write_bytes(whole)
    return bytes(whole)


def test_a_good_folder_is_good_and_stays_as_it_is(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    assert main(["fsck", str(data)]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == (
        "",
        f"1 logs, 20 batches, {sum(map(len, (path.read_bytes() for path in logs(data))))} bytes: none damaged\n",
    )
    after = {path: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.name != layout.LOCK}
    assert after == before


def test_damage_is_named_by_its_bytes_and_offsets(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    second = logs(data)[1]
    base = int(second.stem)
    size = second.stat().st_size
    flip(second, 70)
    assert main(["fsck", str(data)]) == 1
    said = capsys.readouterr().out
    assert said.startswith(f"{second}: bytes 0 to ")
    assert f"from offset {base} on: the batch at offset {base} has another checksum" in said
    assert "an intact batch follows at byte" in said
    assert second.stat().st_size == size


def test_every_flipped_bit_is_found(data: Path) -> None:
    path = logs(data)[0]
    whole = path.read_bytes()
    chosen = random.Random(2)
    for byte in chosen.sample(range(len(whole)), 60):
        flip(path, byte)
        found = examine(RealDisk(), data / "t-0", recovery_point=None)
        position = byte
        outside = any(0 <= position - start < 8 or 12 <= position - start < 16 for start in starts(whole))
        assert outside or any(one.start <= byte < one.end for one in found.findings), byte
        path.write_bytes(whole)


def starts(whole: bytes) -> list[int]:
    found, at = [], 0
    while at < len(whole):
        found.append(at)
        at += 12 + int.from_bytes(whole[at + 8 : at + 12])
    return found


def test_truncating_ends_the_log_before_the_damage_and_keeps_every_byte(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third, *_ = logs(data)
    second_start = starts(second.read_bytes())[1]
    damaged, later = flip(second, second_start + 70), third.read_bytes()
    good = first.read_bytes() + damaged[:second_start]
    assert main(["fsck", str(data), "--truncate"]) == 0
    said = capsys.readouterr().out
    assert f"{second}: cut off bytes {second_start} to {len(damaged) - 1}" in said
    assert f"{third}: cut off bytes 0 to {len(later) - 1}" in said
    kept = data / "t-0"
    assert (kept / f"{second.stem}.{second_start}.torn").read_bytes() == damaged[second_start:]
    assert (kept / f"{third.stem}.0.torn").read_bytes() == later
    assert main(["fsck", str(data)]) == 0

    point = checkpoints.read_offsets(RealDisk(), data / layout.RECOVERY_POINTS)[TP]
    assert not (data / layout.CLEAN_SHUTDOWN).exists()
    log = open_log(data / "t-0", recovery_point=point, segment_bytes=600)
    assert log.recovered.damage is None
    assert read_all(log) == good
    assert append(log) == point


def test_a_log_that_opened_read_only_takes_records_again_after_it_was_cut(data: Path) -> None:
    flip(logs(data)[1], 70)
    log = open_log(data / "t-0", recovery_point=0)
    assert log.offline
    log.close(clean=True)
    assert main(["fsck", str(data), "--truncate"]) == 0
    assert not list((data / "t-0").glob("*.corrupt"))
    log = open_log(data / "t-0", recovery_point=0)
    assert not log.offline
    append(log)


def test_an_unreadable_index_is_told_and_is_no_damage(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = logs(data)[0].with_suffix(layout.INDEX)
    index.write_bytes(b"odd")
    assert main(["fsck", str(data)]) == 0
    assert f"{index}: bytes 0 to 2, 3 of them" in capsys.readouterr().out


def test_a_folder_in_use_is_refused(data: Path) -> None:
    lock = RealDisk().lock(data / layout.LOCK)
    command = [sys.executable, "-m", "broker_lite", "fsck", str(data)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert found.stderr == f"broker-lite: the data folder {data} is in use by a broker; stop it first\n"
    lock.release()
