"""Small files of a data folder that are damaged: what was deleted does not come back, and nothing else goes, unsaid."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker_lite.config.start import Durability, TopicAtStart
from broker_lite.ids import TopicPartition
from broker_lite.log import checkpoints, layout
from broker_lite.log.disk import RealDisk
from tests.broker.test_journal_damage import files, start_refused
from tests.support.talk import talking

MODES = pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])
TOPICS = [TopicAtStart("t", 1, {})]
TP = TopicPartition("t", 0)


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    """Of ten records five were deleted."""
    async with talking(tmp_path, durability=Durability.OS, topics=TOPICS) as talk:
        for _ in range(10):
            await talk.produce("t", b"x")
        partition = talk.broker.topics.partition("t", 0)
        await talk.broker.log_starts.move({partition: partition.start_without(5)})
        assert partition.offsets.start == 5
    return tmp_path


@MODES
@pytest.mark.parametrize(
    "damaged",
    [b"1\n1\nt 0 5\n", b"0\n2\nt 0 5\n", b"0\n1\nt 0 five\n", b"0\n1\nt 0\n", b"0\n1\nt 0 -5\n", b"\xff\xfe", b"0\n"],
)
async def test_a_damaged_log_start_checkpoint_is_no_start(root: Path, durability: Durability, damaged: bytes) -> None:
    path = root / layout.LOG_STARTS
    path.write_bytes(damaged)
    told = await start_refused(root, durability)
    assert told.startswith(f"{path} is damaged: ")
    assert "records that were deleted come back" in told
    path.write_bytes(b"0\n1\nt 0 5\n")
    async with talking(root, durability=durability) as talk:
        assert talk.broker.topics.partition("t", 0).offsets.start == 5


@pytest.mark.parametrize("left", [b"", bytes(11)])
async def test_one_that_a_power_cut_emptied_is_said_aloud(root: Path, left: bytes) -> None:
    (root / layout.LOG_STARTS).write_bytes(left)
    with capture_logs() as lines:
        async with talking(root, durability=Durability.OS) as talk:
            assert talk.broker.topics.partition("t", 0).offsets.start == 0
    (told,) = [line for line in lines if line["event"] == "checkpoint.empty"]
    assert (told["log_level"], told["file"]) == ("error", layout.LOG_STARTS)


@MODES
async def test_a_start_beyond_the_end_deletes_no_log_after_a_clean_stop(root: Path, durability: Durability) -> None:
    checkpoints.write_offsets(RealDisk(), root / layout.LOG_STARTS, {TP: 500}, sync=False)
    before = {name: data for name, data in files(root).items() if name.endswith(".log")}
    with pytest.raises(ExceptionGroup) as refused:
        async with talking(root, durability=durability):
            pass
    assert "lets t-0 start at 500, and it ends at 10" in str(refused.value.exceptions[0])
    assert {name: data for name, data in files(root).items() if name in before} == before


@MODES
@pytest.mark.parametrize(
    "name", [layout.RECOVERY_POINTS, layout.HIGH_WATERMARKS, layout.CLEANED_UP_TO, "t-0/leader-epoch-checkpoint"]
)
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
async def test_the_others_are_shortcuts_and_nothing_is_lost_without_them(
    root: Path, durability: Durability, name: str, clean: bool
) -> None:
    if not clean:
        (root / layout.CLEAN_SHUTDOWN).unlink()
    for damaged in (b"", b"\xff", b"0\n1\nt 0 x\n"):
        (root / name).write_bytes(damaged)
        async with talking(root, durability=durability) as talk:
            offsets = talk.broker.topics.partition("t", 0).offsets
            assert (offsets.start, offsets.high, offsets.end) == (5, 10, 10)
