"""Archive, kill at a random moment, run again: every offset exactly once, as DuckDB and pyarrow read it.

The log grows between the kills.  `make torture` tries ten times as many.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import duckdb
import pyarrow.dataset as ds
import pytest

from broker_lite.pipeline.archive import read_manifest
from broker_lite.pipeline.store import Store
from tests.pipeline import archiving, folders
from tests.pipeline.folders import Written

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SEEDS = range(2 * int(os.environ.get("BROKER_LITE_TORTURE", "1")))
KILLS = 4


def test_an_archive_that_is_killed_again_and_again_holds_every_offset_once(tmp_path: Path) -> None:
    begun = time.monotonic()
    archiving.run(str(_log(tmp_path / "measure", Random(0))[0]), str(tmp_path / "measured"), file_bytes=40_000)
    whole = time.monotonic() - begun
    cut_short = 0
    for seed in SEEDS:
        cut_short += _killed(tmp_path / str(seed), Random(seed), whole)
    assert cut_short, "no kill came in time to leave something undone"


def _log(data: Path, random: Random) -> tuple[Path, list[Written]]:
    made = [Written(data, "orders", part) for part in range(3)]
    for _ in range(100):
        _more(made, random)
    return folders.finish(data, made), made


def _more(partitions: list[Written], random: Random) -> None:
    """A batch, or a whole transaction, for each partition."""
    for one in partitions:
        if random.random() < 0.8:
            one.add(random.randint(1, 60))
        else:
            producer = 1000 + len(one.batches)
            one.add(5, producer=producer, sequence=0, transactional=True).end(producer, commit=random.random() < 0.5)


def _killed(folder: Path, random: Random, whole: float) -> bool:
    """Whether a kill left something undone."""
    data, partitions = _log(folder / "data", random)
    out = folder / "out"
    undone = False
    for _ in range(KILLS):
        words = [str(data), str(out), "40000"]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.archiving", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.stdin.write(b"\n")
        process.stdin.flush()
        time.sleep(random.random() * whole)
        process.kill()
        process.communicate()
        undone |= _is_undone(out)
        _every_offset_at_most_once(out)
        for _ in range(10):
            _more(partitions, random)
        folders.finish(data, partitions)
    archiving.run(str(data), str(out), file_bytes=40_000)
    assert _rows(out) == _expected(partitions)
    assert not [*out.glob(".*")], "nothing half-written is left"
    return undone


def _is_undone(out: Path) -> bool:
    manifest = read_manifest(Store(str(out))) if out.exists() else None
    return manifest is not None and any(not (out / one.file).exists() for one in manifest.files)


def _rows(out: Path) -> list[tuple[int, int]]:
    table = ds.dataset(str(out), format="parquet").to_table(columns=["partition", "offset"])
    return sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def _every_offset_at_most_once(out: Path) -> None:
    """Whatever a reader finds at this moment under a final name is whole, and nothing in it is twice there."""
    if not [*out.glob("*.parquet")]:
        return
    found = _rows(out)
    assert len(found) == len(set(found))
    asked = f"SELECT count(*), count(DISTINCT (partition, \"offset\")) FROM '{out}/*.parquet'"
    assert duckdb.execute(asked).fetchall() == [(len(found), len(found))]


def _expected(partitions: list[Written]) -> list[tuple[int, int]]:
    """By hand: every record that is not of an aborted transaction."""
    found: list[tuple[int, int]] = []
    for one in partitions:
        for at, batch in enumerate(one.batches):
            base, last = int.from_bytes(batch[:8], "big"), int.from_bytes(batch[23:27], "big")
            attributes = int.from_bytes(batch[21:23], "big")
            marker = one.batches[at + 1] if attributes & 0x10 and not attributes & 0x20 else None
            if attributes & 0x20 or (marker is not None and not one.is_commit(marker)):
                continue
            found += [(one.one.partition, base + delta) for delta in range(last + 1)]
    return sorted(found)
