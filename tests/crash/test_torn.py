"""Files that are not what was written: cut short, flipped, filled with zeros, deleted."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from broker_lite.errors import CorruptMessage, StorageFailed
from broker_lite.ids import Offset
from broker_lite.log import layout
from broker_lite.log.log import Log
from tests.log.building import NOW, append, fill, open_log, read_all, read_bytes

LOG = "00000000000000000000.log"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Twelve batches in one segment, the process killed."""
    log = open_log(tmp_path / "t-0")
    fill(log, 12)
    log.close(clean=False)
    return tmp_path / "t-0"


def ends(data: bytes | bytearray) -> list[int]:
    """Where each batch ends."""
    found, position = [], 0
    while position < len(data):
        position += 12 + int.from_bytes(data[position + 8 : position + 12])
        found.append(position)
    return found


def reset(path: Path, data: bytes) -> None:
    for file in path.iterdir():
        file.unlink()
    (path / LOG).write_bytes(data)


def test_a_tail_torn_at_any_byte_is_cut_and_kept_beside(path: Path) -> None:
    whole = (path / LOG).read_bytes()
    for cut in range(len(whole) + 1):
        reset(path, whole[:cut])
        log = open_log(path)
        good = max([end for end in ends(whole) if end <= cut], default=0)
        assert read_all(log) == whole[:good]
        assert (path / LOG).stat().st_size == good
        if good < cut:
            [torn] = path.glob("*.torn")
            assert torn.read_bytes() == whole[good:cut]
            assert log.recovered.torn is not None
            assert (log.recovered.torn.bytes, log.recovered.torn.offset) == (cut - good, log.end)
        else:
            assert log.recovered.torn is None
        append(log, b"goes on")
        log.close(clean=False)
        assert open_log(path).recovered.torn is None


@pytest.mark.parametrize("tail", [bytes(512), bytes(4096), random.Random(7).randbytes(3000), b"\x02" * 500])
def test_a_tail_of_zeros_or_garbage_is_cut(path: Path, tail: bytes) -> None:
    whole = (path / LOG).read_bytes()
    reset(path, whole + tail)
    log = open_log(path)
    assert read_all(log) == whole
    assert log.recovered.torn is not None
    assert log.recovered.torn.bytes == len(tail)


def test_a_flip_in_the_last_batch_is_a_torn_tail(path: Path) -> None:
    whole = bytearray((path / LOG).read_bytes())
    whole[-3] ^= 1
    reset(path, bytes(whole))
    log = open_log(path)
    assert read_all(log) == whole[: ends(whole)[-2]]
    assert log.recovered.torn is not None


def damaged(path: Path, number: int) -> tuple[bytes, int, Log]:
    """One bit of the numbered batch flipped; the whole file, where that batch starts, and the log."""
    whole = bytearray((path / LOG).read_bytes())
    starts = [0, *ends(whole)]
    whole[starts[number] + 30] ^= 1
    reset(path, bytes(whole))
    return bytes(whole), starts[number], open_log(path)


def test_damage_in_the_middle_deletes_nothing_and_is_served_up_to(path: Path) -> None:
    whole, start, log = damaged(path, 5)
    assert read_all(log) == whole[:start]
    assert (path / LOG).read_bytes() == whole
    assert (path / (LOG + layout.CORRUPT)).read_bytes() == whole
    for offset in (log.end, log.end + 5):
        with pytest.raises(CorruptMessage, match=f"damaged at byte {start}, offset {log.end}"):
            read_bytes(log, offset, end=1000)
    with pytest.raises(StorageFailed, match="damaged at byte"):
        append(log)
    assert log.unflushed() is None


def test_damage_is_found_again_after_a_clean_stop(path: Path) -> None:
    whole, start, log = damaged(path, 5)
    log.close(clean=True)
    log = open_log(path, clean=True)
    assert log.recovered.damage is not None
    assert log.recovered.damage.position == start
    assert (path / LOG).read_bytes() == whole


@pytest.mark.parametrize("noticed", [False, True], ids=["at once", "after a start that kept it"])
def test_damage_ends_the_log_where_kafkas_way_is_asked_for_and_every_byte_is_kept(
    tmp_path: Path, noticed: bool
) -> None:
    path = tmp_path / "t-0"
    log = open_log(path, segment_bytes=900)
    fill(log, 40)
    victim = log.segments[1]
    whole = {segment.path: segment.path.read_bytes() for segment in log.segments}
    assert len(whole) > 3
    before = read_all(log)
    log.close(clean=False)
    start = ends(whole[victim.path])[2]
    data = bytearray(whole[victim.path])
    data[start + 70] ^= 1
    victim.path.write_bytes(data)
    if noticed:
        open_log(path, segment_bytes=900).close(clean=True)

    log = open_log(path, segment_bytes=900, cut_damage=True)
    assert log.recovered.damage is None
    assert log.recovered.torn is not None
    good = len(whole[log.segments[0].path]) + start
    assert read_all(log) == before[:good]
    assert log.recovered.torn.bytes == len(before) - good
    assert (path / f"{victim.base:020}.{start}{layout.TORN}").read_bytes() == bytes(data[start:])
    for segment, content in list(whole.items())[2:]:
        assert segment.with_name(segment.stem + ".0" + layout.TORN).read_bytes() == content
    assert append(log, b"goes on") == log.end - 1
    log.close(clean=True)
    log = open_log(path, segment_bytes=900, clean=True)
    assert log.recovered.scanned_from is None
    assert read_all(log).startswith(before[:good])


def test_damage_in_the_first_batch_leaves_an_empty_log_that_takes_nothing(path: Path) -> None:
    whole, _, log = damaged(path, 0)
    assert (log.start, log.end) == (0, 0)
    with pytest.raises(CorruptMessage):
        read_bytes(log, 0, end=1000)
    with pytest.raises(StorageFailed):
        append(log)
    assert (path / LOG).read_bytes() == whole


def test_a_torn_segment_that_is_not_the_last_is_damage(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", segment_bytes=500)
    fill(log, 20)
    second = log.segments[1]
    log.close(clean=False)
    with second.path.open("rb+") as file:
        file.truncate(second.size - 5)
    files = {path.name: path.read_bytes() for path in (tmp_path / "t-0").glob("*.log")}
    log = open_log(tmp_path / "t-0", segment_bytes=500)
    assert log.recovered.damage is not None
    assert log.recovered.damage.path == second.path
    assert {path.name: path.read_bytes() for path in (tmp_path / "t-0").glob("*.log")} == files


def test_a_torn_segment_before_an_empty_one_is_a_torn_tail(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 5)
    log.roll(NOW)
    log.close(clean=False)
    with (tmp_path / "t-0" / LOG).open("rb+") as file:
        file.truncate(log.segments[0].size - 5)
    log = open_log(tmp_path / "t-0")
    assert log.recovered.torn is not None
    assert [segment.base for segment in log.segments] == [0]
    append(log)


def test_a_tear_before_the_recovery_point_is_damage(path: Path) -> None:
    whole = (path / LOG).read_bytes()
    reset(path, whole[:-5])
    log = open_log(path, recovery_point=24)
    assert log.recovered.damage is not None
    assert (path / LOG).read_bytes() == whole[:-5]


# --- the caches ---------------------------------------------------------------------------------------------------


def answers(log: Log) -> object:
    """All that can be asked of a log."""
    return (
        read_all(log),
        [read_bytes(log, offset, max_bytes=300) for offset in range(log.start, log.end)],
        [next((one.base_offset for one in log.find_time(NOW + later)), None) for later in range(-1, 45)],
        log.max_timestamp(),
        [log.epochs.end_offset_for(epoch, log.end) for epoch in range(-1, 6)],
        [log.epochs.epoch_at(offset) for offset in range(log.end)],
    )


@pytest.fixture
def caches(tmp_path: Path) -> tuple[Path, object]:
    """A cleanly stopped log of several segments and epochs, and its answers."""
    log = open_log(tmp_path / "t-0", segment_bytes=1500)
    for epoch in (1, 2, 4):
        for number in range(14):
            append(log, b"value", timestamp=NOW + (number * 7) % 40, epoch=epoch)
    expected = answers(log)
    log.close(clean=True)
    assert len(log.segments) > 2
    return tmp_path / "t-0", expected


def cache_files(path: Path) -> list[Path]:
    return [file for file in sorted(path.iterdir()) if file.suffix != ".log"]


@pytest.mark.parametrize("clean", [True, False])
def test_deleting_any_cache_changes_no_answer(caches: tuple[Path, object], clean: bool) -> None:
    path, expected = caches
    for file in cache_files(path):
        kept = file.read_bytes()
        file.unlink()
        log = open_log(path, segment_bytes=1500, clean=clean)
        assert answers(log) == expected, file.name
        log.close(clean=True)
        assert file.read_bytes() == kept


@pytest.mark.parametrize("clean", [True, False])
def test_flipping_any_bit_of_an_index_changes_no_answer(caches: tuple[Path, object], clean: bool) -> None:
    path, expected = caches
    originals = {file: file.read_bytes() for file in cache_files(path)}
    chosen = random.Random(1)
    for file, data in originals.items():
        if file.suffix not in (layout.INDEX, layout.TIME_INDEX):
            continue
        for byte in range(len(data)):
            file.write_bytes(data[:byte] + bytes([data[byte] ^ 1 << chosen.randrange(8)]) + data[byte + 1 :])
            log = open_log(path, segment_bytes=1500, clean=clean)
            assert answers(log) == expected, f"{file.name} byte {byte}"
            log.close(clean=False)
            for other, content in originals.items():
                other.write_bytes(content)


@pytest.mark.parametrize("clean", [True, False])
def test_a_leader_epoch_that_does_not_fit_the_batches_is_not_believed(caches: tuple[Path, object], clean: bool) -> None:
    path, expected = caches
    file = path / layout.LEADER_EPOCHS
    right = file.read_bytes()
    for wrong in (b"0\n3\n1 0\n2 15\n4 28\n", b"0\n3\n1 0\n3 14\n4 28\n", b"0\n2\n1 0\n4 28\n", b"0\n3\n1 0", b"\xff"):
        assert wrong != right
        file.write_bytes(wrong)
        log = open_log(path, segment_bytes=1500, clean=clean)
        assert answers(log) == expected, wrong
        assert file.read_bytes() == right
        log.close(clean=False)


def test_the_latest_epoch_does_not_fall_when_its_records_are_lost(path: Path) -> None:
    whole = (path / LOG).read_bytes()
    (path / layout.LEADER_EPOCHS).write_bytes(b"0\n2\n0 0\n9 23\n")
    (path / LOG).write_bytes(whole[:-1])
    log = open_log(path)
    assert log.end < 23
    assert log.epochs.entries == [(0, 0), (9, log.end)]
    assert log.epochs.end_offset_for(0, log.end) == (0, Offset(log.end))


@pytest.mark.parametrize("known", [True, False], ids=["recovery point known", "recovery point lost"])
def test_a_bit_flipped_at_any_byte_deletes_nothing_intact_and_serves_nothing_wrong(path: Path, known: bool) -> None:
    whole = (path / LOG).read_bytes()
    starts = [0, *ends(whole)]
    chosen = random.Random(3)
    for byte in range(len(whole)):
        number = max(n for n, start in enumerate(starts) if start <= byte)
        flipped = bytearray(whole)
        flipped[byte] ^= 1 << chosen.randrange(8)
        reset(path, bytes(flipped))
        log = open_log(path, recovery_point=0 if known else None)
        in_batch = byte - starts[number]
        if in_batch in range(12, 16) or (in_batch in range(8) and not known):
            assert (path / LOG).read_bytes() == flipped  # outside the checksum
        elif number == 11 and in_batch >= 8:
            assert log.recovered.torn is not None
            assert read_all(log) == whole[: starts[11]]
        else:
            assert log.recovered.damage is not None
            assert read_all(log) == whole[: starts[number]]
            assert (path / LOG).read_bytes() == flipped
        log.close(clean=False)
