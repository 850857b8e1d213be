"""An archive at a URI: on this machine, and behind a file system of pyarrow's that is none of this machine's."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyarrow import fs

from broker_lite.pipeline.errors import NotThere
from broker_lite.pipeline.replay import lanes_of_archive
from broker_lite.pipeline.store import Store
from tests.pipeline import archiving, folders


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return folders.finish(tmp_path / "data", [folders.idempotent(tmp_path / "data", "orders")])


def offsets(files: list[Path]) -> list[int]:
    found = ds.dataset([str(file) for file in files], format="parquet").to_table(columns=["offset"])
    return sorted(found["offset"].to_pylist())


def test_a_uri_of_this_machine_is_read_and_written(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    archiving.run(data.as_uri(), out.as_uri(), file_bytes=100)
    assert offsets([*out.glob("*.parquet")]) == list(range(30))
    (lane,) = lanes_of_archive(out.as_uri())
    assert sum(1 for _ in lane.records()) == 30


def test_any_file_system_of_pyarrow_is_written_and_read_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    known = fs.FileSystem.from_uri

    class Opener:
        @staticmethod
        def from_uri(uri: str) -> tuple[fs.FileSystem, str]:
            return (bucket, uri.removeprefix("bucket://")) if uri.startswith("bucket://") else known(uri)

    monkeypatch.setattr(fs, "FileSystem", Opener)
    assert not isinstance(Store("bucket://out")._fs, fs.LocalFileSystem), "nothing of this machine's is used"
    archiving.run("bucket://data", "bucket://out", file_bytes=100)
    written = [*(tmp_path / "out").glob("*.parquet")]
    assert offsets(written) == list(range(30))
    written[0].unlink()
    archiving.run("bucket://data", "bucket://out", file_bytes=100)
    assert offsets([*(tmp_path / "out").glob("*.parquet")]) == list(range(30))
    (lane,) = lanes_of_archive("bucket://out")
    assert sum(1 for _ in lane.records()) == 30


@pytest.mark.parametrize("place", ["nothing://at/all", "s4://bucket"])
def test_a_uri_that_nobody_knows_is_one_line(place: str) -> None:
    with pytest.raises(NotThere, match=f"{place} cannot be opened") as caught:
        Store(place)
    assert "\n" not in str(caught.value)
