"""A journal that is not what was written: no start, and the file and the byte are named; a torn tail is cut.

The sweeps below flip every byte and cut at every length.  Of a flipped journal nothing is ever lost, the last batch
included: a start is refused, or (the four bytes of each batch's leader epoch, which no checksum covers and nobody here
reads) finds the same state.  Of a cut one exactly the batches that are whole are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker_lite.broker.journal import FOLDER, Change, Journal
from broker_lite.config.key import Scope
from broker_lite.config.start import Durability
from broker_lite.errors import StartRefused
from broker_lite.log import layout
from broker_lite.log.disk import RealDisk
from broker_lite.log.strict import SECTOR
from broker_lite.records.batch import HEADER_SIZE, walk
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.security.acls import Binding, Operation, Pattern, Permission, Resource
from broker_lite.security.scram import ScramCredential, ScramMechanism
from tests.crash.faulty_disk import FaultyDisk, PowerOff
from tests.support.talk import NOW, Talk, talking

State = dict[tuple[str, str], object]
MODES = pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])
DENIED = Binding(Resource.TOPIC, "t", Pattern.LITERAL, "User:eve", "*", Operation.READ, Permission.DENY)
EPOCH = range(12, 16)
"""Of a batch: the leader epoch."""


def opened(root: Path) -> Journal:
    return Journal.open(root, RealDisk(), now_ms=NOW, sync=False)


def state(root: Path) -> State:
    found: State = {}
    for change in opened(root).replay():
        if change.value is None:
            found.pop((change.kind, change.name), None)
        else:
            found[change.kind, change.name] = dict(change.value)
    return found


def logs(root: Path) -> list[Path]:
    return sorted((root / FOLDER).glob("*.log"))


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name != layout.LOCK
    }


def starts(data: bytes) -> list[int]:
    at, found = 0, []
    for batch in walk(data):
        found.append(at)
        at += batch.size
    return found


def flipped(data: bytes, byte: int, bit: int = 0) -> bytes:
    return data[:byte] + bytes([data[byte] ^ 1 << bit]) + data[byte + 1 :]


def refusal(root: Path) -> str:
    """What a start says; the disk is as it was."""
    before = files(root)
    with pytest.raises(StartRefused) as refused:
        state(root)
    assert files(root) == before
    return str(refused.value)


async def start_refused(root: Path, durability: Durability, settings: dict[str, str] | None = None) -> str:
    before = files(root)
    with pytest.raises((ExceptionGroup, StartRefused)) as refused:
        async with talking(root, durability=durability, settings=settings):
            pass
    assert files(root) == before
    found: BaseException = refused.value
    while isinstance(found, ExceptionGroup):
        (found,) = found.exceptions
    assert isinstance(found, StartRefused)
    assert "\n" not in str(found)
    return str(found)


async def fill(talk: Talk) -> None:
    """Each kind of record, and some of them gone again."""
    broker = talk.broker
    broker.topics.create("t", 2, {"retention.ms": "1000"})
    broker.users.set(ScramMechanism.SHA_256, "mallory", ScramCredential(b"salt", b"stored", b"server", 4096))
    broker.configs.set(Scope.BROKER, "", {"log.retention.ms": "5000"})
    broker.quotas.set((("user", "eve"),), {"producer_byte_rate": 1000.0})
    broker.features_on.set({"group.version": 0})
    broker.producer_ids.new()
    broker.topics.create("gone", 1, {})
    gone = broker.topics.get("gone")
    assert gone is not None
    broker.delete_topic(gone)
    broker.users.delete(ScramMechanism.SHA_256, "mallory")
    broker.acls.add([DENIED])


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    async with talking(tmp_path, durability=Durability.OS) as talk:
        await fill(talk)
    return tmp_path


# ---- what a whole broker does


@MODES
async def test_a_damaged_byte_in_the_middle_is_no_start_and_the_folder_stays_as_it_is(
    tmp_path: Path, durability: Durability
) -> None:
    async with talking(tmp_path, durability=durability) as talk:
        await fill(talk)
    (path,) = logs(tmp_path)
    whole = path.read_bytes()
    for batch in (0, len(starts(whole)) // 2, -1):
        at = starts(whole)[batch]
        path.write_bytes(flipped(whole, at + HEADER_SIZE + 12))
        for more in ({}, {"broker.lite.recover": "kafka"}):  # that is for records, and says so
            told = await start_refused(tmp_path, durability, more)
            assert told.startswith(f"{path} is damaged at byte {at}: ")
            assert f"`broker-lite fsck {tmp_path}`" in told
        assert (tmp_path / layout.CLEAN_SHUTDOWN).exists()
    path.write_bytes(whole)
    async with talking(tmp_path, durability=durability) as talk:
        assert DENIED in list(talk.broker.acls._rules)
        assert list(talk.broker.users) == []


@MODES
async def test_a_torn_tail_is_cut_said_and_kept(tmp_path: Path, durability: Durability) -> None:
    async with talking(tmp_path, durability=durability) as talk:
        await fill(talk)
    (path,) = logs(tmp_path)
    whole = path.read_bytes()
    last = starts(whole)[-1]
    path.write_bytes(whole[:-5])
    with capture_logs() as lines:
        async with talking(tmp_path, durability=durability) as talk:
            assert DENIED not in list(talk.broker.acls._rules)
            talk.broker.acls.add([DENIED])
    (told,) = [line for line in lines if line["event"] == "journal.torn_tail_cut"]
    assert (told["log_level"], told["bytes"]) == ("warning", len(whole) - 5 - last)
    assert (tmp_path / FOLDER / told["kept"]).read_bytes() == whole[last:-5]
    async with talking(tmp_path, durability=durability) as talk:
        assert DENIED in list(talk.broker.acls._rules)


async def test_damaged_indexes_and_epochs_do_not_matter(root: Path) -> None:
    before = {key: value for key, value in state(root).items() if key[0] != "deleted"}
    for name in (".index", ".timeindex"):
        (root / FOLDER / layout.file_name(0, name)).write_bytes(b"odd")
    (root / FOLDER / layout.LEADER_EPOCHS).write_bytes(b"\xff\xff")
    async with talking(root, durability=Durability.OS) as talk:
        assert DENIED in list(talk.broker.acls._rules)
    assert state(root) == before


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b"{}"),
        (b"\xff\xfe", b"{}"),
        (b'"topic"', b"{}"),
        (b'["topic","x","y"]', b"{}"),
        (b'["topic",5]', b"{}"),
        (b'["topic","x"]', b"[]"),
        (b'["topic","x"]', b"{"),
        (b"[" * 100_000, b"{}"),
    ],
)
async def test_what_is_no_change_is_damage(root: Path, key: bytes, value: bytes) -> None:
    at = append(root, NewRecord(key, value))
    told = await start_refused(root, Durability.OS)
    assert told.startswith(f"{logs(root)[-1]} is damaged at byte {at}: the batch holds no changes: ")
    assert len(told) < 1000


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b'["topic","x"]', b"{}", "no field 'configs'"),
        (b'["topic","x"]', b'{"id":7,"partitions":1,"configs":{}}', "id is 7, not of type str"),
        (b'["topic","x"]', b'{"id":"?","partitions":1,"configs":{}}', "is not understood"),
        (b'["topic","x"]', b'{"id":"AAAA","partitions":true,"configs":{}}', "partitions is True"),
        (b'["deleted","?"]', b'{"name":"x","partitions":1}', "'deleted' '?' is not understood"),
        (b'["acl","[1,2]"]', b"{}", "'acl' '[1,2]' is not understood"),
        (b'["acl","[2,\\"t\\",3,\\"User:a\\",\\"*\\",3,77]"]', b"{}", "77"),
        (b'["scram","9/eve"]', b'{"salt":"","stored_key":"","server_key":"","iterations":1}', "9"),
        (b'["feature","group.version"]', None, "is not understood"),
        (b'["quota","[[\\"user\\",\\"eve\\"]]"]', b'{"producer_byte_rate":"many"}', "a limit is a number"),
        (b'["config","planet/mars"]', b'{"configs":{}}', "planet"),
        (b'["aura","x"]', b"{}", "the record of 'aura' 'x' is not understood: unknown kind 'aura'"),
        (b'["two\\nlines","x\\ny\\u001b[2J"]', b"{}", r"'two\nlines' 'x\ny\x1b[2J' is not understood"),
        (b'["acl","x"]', b'{"unless":"weekend"}', "unknown field 'unless'"),
        (b'["topic","x"]', b'{"id":"","partitions":1,"configs":{},"tier":0}', "unknown field 'tier'"),
    ],
)
async def test_what_another_version_wrote_is_no_start_and_no_traceback(
    root: Path, key: bytes, value: bytes | None, reason: str
) -> None:
    """To leave out what is not understood may be to leave out a condition, and the next change would lose it."""
    at = append(root, NewRecord(key, value))
    told = await start_refused(root, Durability.OS)
    assert told.startswith(f"{logs(root)[-1]}, byte {at}: ")
    assert reason in told
    assert told.endswith("; start the version of broker-lite that wrote it")
    assert len(told) < 1000


def append(root: Path, record: NewRecord) -> int:
    """As our own append would; where it was put."""
    path = logs(root)[-1]
    data = path.read_bytes()
    batch = bytearray(build_batch([record], timestamp=NOW))
    *_, last = walk(data)
    batch[:8] = last.next_offset.to_bytes(8, "big")
    batch[12:16] = bytes(4)
    path.write_bytes(data + batch)
    return len(data)


# ---- every byte


def test_no_flipped_byte_is_ever_lost(root: Path) -> None:
    (path,) = logs(root)
    whole, before = path.read_bytes(), state(root)
    places = starts(whole)
    same = 0
    for byte in range(len(whole)):
        start = max(at for at in places if at <= byte)
        path.write_bytes(flipped(whole, byte, byte % 8))
        if byte - start in EPOCH:
            assert state(root) == before, byte
            same += 1
        else:
            assert refusal(root).startswith(f"{path} is damaged at byte {start}: "), byte
    assert same == len(EPOCH) * len(places)


def test_of_a_journal_that_was_cut_short_every_whole_batch_is_there(root: Path) -> None:
    (path,) = logs(root)
    whole = path.read_bytes()
    folded: dict[int, State] = {}
    for at in [*starts(whole), len(whole)]:
        path.write_bytes(whole[:at])
        folded[at] = state(root)
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert state(root) == folded[max(at for at in folded if at <= length)], length


def big(root: Path) -> tuple[Path, bytes, State]:
    """A journal whose last batch covers several sectors; its state without that."""
    journal = opened(root)
    journal.write([Change("topic", "a", {"n": 1})], NOW)
    journal.close()
    before = state(root)
    journal = opened(root)
    journal.write([Change("topic", f"t{number}", {"n": "x" * 50}) for number in range(20)], NOW)
    journal.close()
    (path,) = logs(root)
    return path, path.read_bytes(), before


def test_sectors_that_the_power_cut_took_are_a_torn_tail(tmp_path: Path) -> None:
    path, whole, before = big(tmp_path)
    last = starts(whole)[-1]
    boundaries = [at for at in range(0, len(whole), SECTOR) if at > last]
    assert len(boundaries) >= 3
    for at in boundaries:
        tail = min(at + SECTOR, len(whole))
        for lost in (whole[:at] + bytes(len(whole) - at), whole[:at] + bytes(tail - at) + whole[tail:]):
            if tail - at < SECTOR and lost[-16:] != bytes(16):
                continue
            path.write_bytes(lost)
            assert state(tmp_path) == before, at
    first = whole[:last] + bytes(boundaries[0] - last) + whole[boundaries[0] :]
    for zeros in (first, whole[:last] + bytes(4096), whole[:last] + bytes(3), whole[: last + 100] + bytes(4096)):
        path.write_bytes(zeros)
        assert state(tmp_path) == before


def test_a_whole_last_batch_that_has_changed_is_damage_wherever_it_lies_in_its_sectors(tmp_path: Path) -> None:
    """Its last byte is a zero in any case, so a piece of a sector that is zero proves nothing if it is short."""
    for pad in range(0, 2 * SECTOR, 7):
        root = tmp_path / str(pad)
        journal = opened(root)
        journal.write([Change("topic", "a" * (pad + 1), {"n": 1})], NOW)
        journal.write([Change("topic", "b", {"n": "x" * 600})], NOW)
        journal.close()
        (path,) = logs(root)
        whole = path.read_bytes()
        for byte in (8, 11, 17, HEADER_SIZE + 20):
            path.write_bytes(flipped(whole, starts(whole)[-1] + byte))
            assert f"byte {starts(whole)[-1]}: " in refusal(root)


# ---- more than one segment


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """As after compactions that were interrupted before they removed anything."""
    disk = RealDisk()
    journal = Journal.open(tmp_path, disk, now_ms=NOW, sync=False)
    for number in range(3):
        journal.write([Change("topic", f"t{number}", {"n": number}), Change("topic", "t", {"n": number})], NOW)
        journal.write([Change("topic", f"u{number}", {"n": number})], NOW)
        if number < 2:
            journal._log.roll(NOW)
    journal.close()
    assert [int(path.stem) for path in logs(tmp_path)] == [0, 3, 6]
    assert state(tmp_path)["topic", "t"] == {"n": 2}
    return tmp_path


def mutations(paths: list[Path]) -> Iterator[tuple[str, Callable[[], object], Path, int]]:
    first, second, third = paths
    sizes = [path.stat().st_size for path in paths]
    yield "a byte of the first", lambda: first.write_bytes(flipped(first.read_bytes(), 80)), first, 0
    yield (
        "a byte at the end of the first",
        lambda: first.write_bytes(flipped(first.read_bytes(), sizes[0] - 3)),
        first,
        1,
    )
    yield "the first cut in a batch", lambda: first.write_bytes(first.read_bytes()[:-3]), first, 1
    yield "the first cut between batches", lambda: cut_last(first), second, 0
    yield "zeros at the end of the second", lambda: second.write_bytes(second.read_bytes() + bytes(64)), second, 2
    yield "the second missing", second.unlink, third, 0
    yield "the second empty", lambda: second.write_bytes(b""), third, 0
    yield "the third under a later name", lambda: third.rename(third.with_name(layout.file_name(99, ".log"))), third, 0


def cut_last(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: starts(data)[-1]])


@pytest.mark.parametrize("which", range(8))
def test_damage_before_the_last_segment_is_never_a_torn_tail(three: Path, which: int) -> None:
    paths = logs(three)
    name, damage, path, batch = list(mutations(paths))[which]
    data = path.read_bytes()
    at = [*starts(data), len(data)][batch]
    damage()
    told = refusal(three)
    if name == "the third under a later name":
        path = path.with_name(layout.file_name(99, ".log"))
    assert told.startswith(f"{path} is damaged at byte {at}: "), name


def test_segments_that_are_all_gone_are_missed(three: Path) -> None:
    for path in logs(three):
        path.unlink()
    assert "0.log is damaged at byte 0: the file is missing" in refusal(three)


@pytest.mark.parametrize("sync", [False, True], ids=["os", "fsync"])
def test_the_power_may_go_at_any_moment_of_changes_and_compactions(tmp_path: Path, sync: bool) -> None:
    """What was synced is there afterwards, and there is always a start."""
    moment = survived = 0
    while True:
        moment += 1
        root = tmp_path / str(moment)
        disk = FaultyDisk(power_off_at=moment)
        done = 0
        try:
            journal = Journal.open(root, disk, now_ms=NOW, sync=sync)
            for number in range(4):
                journal.write([Change("topic", "a", {"n": number}), Change("topic", f"b{number}", {})], NOW)
                done = number + 1 if sync else done
                if number % 2:
                    journal.compact(NOW)
                    done = number + 1
        except PowerOff:
            survived += 1
        disk.abandon()
        disk.lose(moment % 3, 3)
        found = state(root)
        again = opened(root)
        assert list(again.replay()) is not None
        again.begin()
        written = [number for number in range(4) if ("topic", f"b{number}") in found]
        assert written == list(range(len(written))), f"{moment=}"
        assert done <= len(written) <= done + 2, f"{moment=}"
        assert found.get(("topic", "a")) == ({"n": len(written) - 1} if written else None)
        again.close()
        assert state(root) == found
        if not disk.dead:
            break
    assert survived > 20
