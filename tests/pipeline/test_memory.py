"""What a reader holds does not depend on how long a segment is, nor on how well it is compressed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from broker_lite.ids import TopicPartition
from broker_lite.log.layout import HIGH_WATERMARKS, LOG, META_PROPERTIES, file_name, format_offsets, format_properties
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.compression import Codec
from tests.pipeline.building import NOW
from tests.pipeline.segments import long_segment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

READ = """
import resource, sys
from broker_lite.pipeline.parquet import Task, write_file
from broker_lite.pipeline.looking import Task as Look, look
from broker_lite.pipeline.slices import Place, Slice
whole = Slice(Place(path=sys.argv[1]), "orders", 0, 0, int(sys.argv[2]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
if sys.argv[3] == "archive":
    print(write_file(Task(whole, sys.argv[1] + "/out", "out.parquet", "zstd")).records)
elif sys.argv[3] == "audit":
    print(look(Look(whole, True)).records)
else:
    print(sum(len(rows) for rows in whole.rows()))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("way", ["rows", "archive", "audit"])
@pytest.mark.parametrize(("codec", "size"), [(Codec.NONE, 200_000_000), (Codec.ZSTD, 100_000)])
def test_a_worker_stays_small(tmp_path: Path, way: str, codec: Codec, size: int) -> None:
    """A hundred kilobytes of zstd are most of a gigabyte, if they are zeros."""
    value = b"\0" * 100_000 if codec else bytes(range(200)) * 5
    short = tmp_path / "short.log"
    short.write_bytes(build_batch([NewRecord(b"k", value)] * 15, timestamp=NOW, codec=codec))
    folder = tmp_path / "data" / "orders-0"
    folder.mkdir(parents=True)
    (tmp_path / "data" / "out").mkdir()
    end = long_segment(short, folder, size)
    (tmp_path / "data" / META_PROPERTIES).write_bytes(format_properties({"version": "1", "cluster.id": "by-hand"}))
    (tmp_path / "data" / HIGH_WATERMARKS).write_bytes(format_offsets({TopicPartition("orders", 0): end}))
    assert (folder / file_name(0, LOG)).stat().st_size >= size
    words = [sys.executable, "-c", READ, str(tmp_path / "data"), str(end), way]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=250).stdout.split()
    assert int(said[0]) == end
    assert int(said[1]) < 300, f"{said[1]} MiB more than before"
