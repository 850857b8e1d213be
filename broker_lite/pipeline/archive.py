"""Topics to Parquet: each offset in exactly one file, however often the job is killed and started again.

    orders-0-00000000000000000000-00000000000000312499.parquet     offsets 0 to 312499 of partition 0
    _manifest.json                                                 every file there is or will be

First the plan, then the work.  The exact offset range of every file is put into the manifest before the first byte of
it is written; a run begins with the files that the manifest names and that are not there yet, with the same ranges, and
goes on behind the last range of each partition.  A range is never planned twice, so no reader ever sees an offset
twice.  A file is written under a name that no reader looks at and then renamed: it is there whole or not at all, and
that it is there is all that says it is done.  A range without records to be seen is a file without rows.

Files in the folder that the manifest does not name are somebody else's: an error, unless they are to be removed.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from broker_lite.ids import TopicPartition
from broker_lite.pipeline import plan
from broker_lite.pipeline.errors import DataLost, Refused
from broker_lite.pipeline.folder import Folder
from broker_lite.pipeline.options import Asked
from broker_lite.pipeline.parquet import Task, Written, write_file
from broker_lite.pipeline.progress import Progress, run_tasks
from broker_lite.pipeline.slices import Slice
from broker_lite.pipeline.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANIFEST = "_manifest.json"
FILE_BYTES = 64 << 20
"""Of log, compressed as it is there."""
OFFSETS_A_FILE = 500_000
"""Over the wire, where nobody knows how many bytes lie between two offsets."""
_HALF = re.compile(r"\..+\.tmp")


@dataclass(frozen=True, slots=True)
class Planned:
    file: str
    topic: str
    partition: int
    first: int
    end: int


@dataclass(slots=True)
class Manifest:
    cluster_id: str | None
    isolation: str
    files: list[Planned]
    topic_ids: dict[str, str] = field(default_factory=dict)
    """Of each topic, as far as it is known: one that is made anew has the old name and other records."""

    def ends(self) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for one in self.files:
            part = TopicPartition(one.topic, one.partition)
            found[part] = max(found.get(part, 0), one.end)
        return found


@dataclass(slots=True)
class Summary:
    files: int = 0
    records: int = 0
    bytes: int = 0
    left_out: int = 0
    seconds: float = 0.0

    def add(self, written: list[Written]) -> None:
        self.files += len(written)
        self.records += sum(one.records for one in written)
        self.bytes += sum(one.bytes for one in written)
        self.left_out += sum(one.left_out for one in written)


def archive(
    spark: SparkSession,
    asked: Asked,
    out: str,
    progress: Progress,
    *,
    codec: str = "zstd",
    file_bytes: int = FILE_BYTES,
    clean: bool = False,
    follow: Callable[[], bool] | None = None,
) -> Summary:
    """Write what is not written yet. `follow` is asked after each round whether there is to be another."""
    begun = time.monotonic()
    store = Store(out)
    summary = Summary()
    while True:
        manifest = ready(store, clean=clean)
        with plan.place_of(asked).opened() as source:
            cluster = source.cluster_id if isinstance(source, Folder) else source.cluster_id()
            isolation = "read_committed" if asked.committed else "read_uncommitted"
            if manifest is None:
                manifest = Manifest(cluster, isolation, [])
            _same(manifest, cluster, isolation, out)
            _same_topics(manifest, source, asked, out)
            missing = _missing(store, manifest)
            resumed = bool(missing)
            if not resumed and (missing := _plan_more(source, asked, manifest, file_bytes)):
                write_manifest(store, manifest)
            tasks = _tasks(source, asked, missing, out, codec)
        summary.add(run_tasks(spark, tasks, write_file, progress, size=lambda task: task.slice.end - task.slice.first))
        if not resumed and (follow is None or not follow()):
            summary.seconds = time.monotonic() - begun
            return summary


def ready(store: Store, *, clean: bool) -> Manifest | None:
    """The folder may be written to, and this is what its manifest says. Refused if it is not an archive's."""
    store.make_folder()
    manifest = read_manifest(store)
    _tidy(store, manifest, clean=clean)
    return manifest


def read_manifest(store: Store) -> Manifest | None:
    if not store.exists(MANIFEST):
        return None
    try:
        told = json.loads(store.read_bytes(MANIFEST))
        if told["version"] != 1:
            raise Refused(f"{store.place}/{MANIFEST} has version {told['version']}, this program knows 1")
        files = [Planned(**one) for one in told["files"]]
        return Manifest(told["cluster_id"], told["isolation"], files, dict(told.get("topic_ids", {})))
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"{store.place}/{MANIFEST} is no manifest of an archive: {error}") from None


def write_manifest(store: Store, manifest: Manifest) -> None:
    told = {
        "version": 1,
        "cluster_id": manifest.cluster_id,
        "isolation": manifest.isolation,
        "topic_ids": manifest.topic_ids,
        "files": [asdict(one) for one in manifest.files],
    }
    store.write(MANIFEST, json.dumps(told, indent=1).encode() + b"\n")


def _tidy(store: Store, manifest: Manifest | None, *, clean: bool) -> None:
    """Remove what killed runs left half-written, and refuse files that are not ours."""
    known = {MANIFEST, *(one.file for one in manifest.files)} if manifest else {MANIFEST}
    there = store.listing()
    for one in there:
        if one.is_folder:  # readers look into it, and nobody asked for a whole folder to be removed
            raise Refused(f"{store.place} has a folder that no archive wrote, {one.name}; --clean removes files only")
    foreign = [one.name for one in there if one.name not in known and not _HALF.fullmatch(one.name)]
    if foreign and not clean:
        raise Refused(f"{store.place} has files that no archive wrote, such as {foreign[0]}; --clean removes them")
    for name in (*foreign, *(one.name for one in there if _HALF.fullmatch(one.name))):
        store.remove(name)


def _same(manifest: Manifest, cluster: str | None, isolation: str, out: str) -> None:
    if manifest.files and manifest.cluster_id != cluster:
        raise Refused(f"{out} is the archive of cluster {manifest.cluster_id}, not of {cluster}")
    if manifest.files and manifest.isolation != isolation:
        raise Refused(f"{out} is an archive with isolation {manifest.isolation}, not {isolation}")


def _same_topics(manifest: Manifest, source: plan.Source, asked: Asked, out: str) -> None:
    """Note the ids of topics that are new here, and refuse one that has come in the place of another."""
    for topic in sorted({one.topic for one in plan.choose(source, asked)}):
        now = source.topic_id(topic)
        if now is not None and manifest.topic_ids.setdefault(topic, now) != now:
            raise Refused(
                f"{out} is the archive of another topic {topic}, with id {manifest.topic_ids[topic]}: "
                f"the one that is there now has id {now}"
            )


def _missing(store: Store, manifest: Manifest) -> list[Planned]:
    there = {one.name for one in store.listing()}
    return [one for one in manifest.files if one.file not in there]


def _plan_more(source: plan.Source, asked: Asked, manifest: Manifest, file_bytes: int) -> list[Planned]:
    """Ranges behind what is planned already, added to the manifest (which is not written yet)."""
    bounds = plan.all_bounds(source, plan.choose(source, asked), committed=asked.committed)
    ends = manifest.ends()
    new: list[Planned] = []
    for one, known in bounds.items():
        first = ends.get(one, known.start)
        if first < known.start:
            if asked.fail_on_loss:
                raise DataLost(
                    f"{one.topic}-{one.partition}: offsets {first} to {known.start - 1} are gone, not yet archived"
                )
            first = known.start
        if first > known.end and asked.fail_on_loss:
            raise DataLost(
                f"{one.topic}-{one.partition}: offsets to {first - 1} are archived, but the log ends at {known.end}"
            )
        if first >= known.end:
            continue
        pieces = 1 if isinstance(source, Folder) else -(-(known.end - first) // OFFSETS_A_FILE)
        for low, high in plan.cut(source, one, first, known.end, at_least=pieces, size=file_bytes):
            name = f"{one.topic}-{one.partition}-{low:020d}-{high - 1:020d}.parquet"
            new.append(Planned(name, one.topic, one.partition, low, high))
    manifest.files += new
    return new


def _tasks(source: plan.Source, asked: Asked, planned: list[Planned], out: str, codec: str) -> list[Task]:
    parts = sorted({TopicPartition(one.topic, one.partition) for one in planned})
    bounds = plan.all_bounds(source, parts, committed=asked.committed)
    tasks: list[Task] = []
    for one in planned:
        aborted = bounds[TopicPartition(one.topic, one.partition)].aborted
        inside = tuple(txn for txn in aborted if txn.last >= one.first and txn.first < one.end)
        piece = Slice(plan.place_of(asked), one.topic, one.partition, one.first, one.end, asked.committed, inside)
        piece = replace(piece, fail_on_loss=asked.fail_on_loss, on_corrupt=asked.on_corrupt)
        tasks.append(Task(piece, out, one.file, codec))
    return tasks
