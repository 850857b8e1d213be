"""A damaged journal and `broker-lite fsck`: what is damaged, and would be lost, is named, and cut only when asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.broker.journal import FOLDER
from broker_lite.cli import main
from broker_lite.config.start import Durability
from broker_lite.log import layout
from broker_lite.records.build import NewRecord
from tests.broker.test_journal_damage import (
    DENIED,
    append,
    files,
    fill,
    flipped,
    logs,
    refusal,
    start_refused,
    starts,
    state,
)
from tests.support.talk import talking

MODES = pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    async with talking(tmp_path, durability=Durability.OS) as talk:
        await fill(talk)
        assert (await talk.produce("t", b"kept", producer=(7, 0, 0))).error_code == 0
    return tmp_path


@MODES
async def test_from_a_damaged_byte_to_a_broker_that_runs(
    root: Path, durability: Durability, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = logs(root)
    whole = path.read_bytes()
    at = starts(whole)[0]
    damaged = flipped(whole, at + 100)
    path.write_bytes(damaged)
    await start_refused(root, durability)

    before = files(root)
    assert main(["fsck", str(root)]) == 1
    said = capsys.readouterr()
    assert said.out.startswith(f"{path}: bytes {at} to {starts(whole)[1] - 1}, ")
    assert f"an intact batch follows at byte {starts(whole)[1]}" in said.out
    for lost in ("scram 1/mallory is removed", "acl [2,", "quota [[", "feature group.version is set"):
        assert f"lost if it is cut: {lost}" in said.out.replace('"', "").replace(", ", ",").replace(
            "cut:acl", "cut: acl"
        )
    assert "stored_key" not in said.out
    assert said.err.endswith("1 damaged\n")
    assert files(root) == before

    assert main(["fsck", str(root), "--truncate"]) == 0
    assert f"{path}: cut off bytes {at} to {len(whole) - 1}" in capsys.readouterr().out
    assert (root / FOLDER / f"{path.stem}.{at}{layout.TORN}").read_bytes() == damaged[at:]
    assert main(["fsck", str(root)]) == 0
    async with talking(root, durability=durability) as talk:
        assert DENIED not in list(talk.broker.acls._rules)
        topic = talk.broker.topics.get("t")  # adopted, and so kept
        assert topic is not None
        assert topic.configs["retention.ms"] == "-1"
        assert talk.broker.topics.partition("t", 0).offsets.end == 1
        assert talk.broker.producer_ids.new() > 1000


def test_every_damage_that_a_start_refuses_is_found_and_can_be_cut(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = logs(root)
    whole = path.read_bytes()
    kept = files(root)
    for byte in range(0, len(whole), 23):
        path.write_bytes(flipped(whole, byte))
        start = max(at for at in starts(whole) if at <= byte)
        if byte - start in range(12, 16):
            continue
        assert f"damaged at byte {start}: " in refusal(root)
        assert main(["fsck", str(root)]) == 1, byte
        assert f"{path}: bytes {start} to " in capsys.readouterr().out
        assert main(["fsck", str(root), "--truncate"]) == 0
        assert state(root)["producer-ids", "next"]
        for file in (root / FOLDER).iterdir():
            file.unlink()
        for name, data in kept.items():
            (root / name).write_bytes(data)


async def test_a_batch_without_changes_and_a_missing_file_are_found_and_can_be_cut(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = state(root)
    at = append(root, NewRecord(b"odd", b"odd"))
    path = logs(root)[-1]
    assert main(["fsck", str(root)]) == 1
    assert f"{path}: bytes {at} to " in capsys.readouterr().out
    assert main(["fsck", str(root), "--truncate"]) == 0
    after = state(root)
    assert {**after, ("producer-ids", "next"): None} == {**before, ("producer-ids", "next"): None}

    for log in logs(root):
        log.unlink()
    assert main(["fsck", str(root)]) == 1
    assert "byte 0, from offset 0 on: the file is missing" in capsys.readouterr().out
    assert main(["fsck", str(root), "--truncate"]) == 0
    async with talking(root, durability=Durability.OS) as talk:
        assert talk.broker.topics.get("t") is not None
