"""The metadata journal: topics, their configurations, and ids given away.

One log in the folder `@journal` (no topic can be called that), one batch per decision: a decision is there whole or not
at all.  Each record says what is now true of one thing: its key is the JSON list [kind, name], its value a JSON object,
or null when the thing is gone.  Folding the log from the start gives the state; that is the only way state comes back
after a restart.

The journal stays small: when most of its records have been overtaken by later ones, everything that is true now is
written once more into a new segment, synced, and the segments before it are removed.  A crash at any point of this
leaves a journal that folds to the same state, because a snapshot only repeats what the records before it say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from broker_lite.errors import StartRefused, StorageFailed
from broker_lite.ids import Offset
from broker_lite.log.disk import Disk
from broker_lite.log.log import Log, LogSettings
from broker_lite.log.opening import open_log
from broker_lite.log.sync import SyncJob
from broker_lite.logs import get_logger
from broker_lite.records.batch import Batch
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.record import records_of
from broker_lite.shapes import dataclass

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

log = get_logger(__name__)

FOLDER = "@journal"
OVERTAKEN = 3
FEW = 1000
"""A journal is compacted when it has more records than so many times what is true, and these."""
A_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Change:
    """What is now true of one thing; `value` None: it is gone."""

    kind: str
    name: str
    value: Mapping[str, Json] | None


class Journal:
    def __init__(self, log: Log, disk: Disk, *, sync: bool) -> None:
        self._log = log
        self._disk = disk
        self.sync = sync
        """A write returns when the disk has it; else it is for somebody else to see to that."""
        self._live: dict[bytes, bytes] = {}
        """What is true now, as it was written."""
        self._written = 0
        """Records in the log."""

    @classmethod
    def open(cls, data: Path, disk: Disk, *, now_ms: int, sync: bool) -> Journal:
        log = open_log(
            data / FOLDER, disk, LogSettings(), clean=False, recovery_point=None, log_start=None, now_ms=now_ms
        )
        return cls(log, disk, sync=sync)

    def replay(self) -> Iterator[Change]:
        """Every change that is still written down, oldest first."""
        for batch in self._log.batches(self._log.start):
            for record in records_of(batch):
                if record.key is None:
                    raise StartRefused(f"the journal {FOLDER} has a record without a key at offset {record.offset}")
                kind, name = json.loads(record.key)
                self._fold(record.key, record.value)
                yield Change(kind, name, None if record.value is None else json.loads(record.value))

    def write(self, changes: list[Change], now_ms: int) -> None:
        """All of `changes` or, if the disk refuses, none. Durable on return as far as the durability mode promises."""
        records = [NewRecord(key=_dump([change.kind, change.name]), value=_value(change)) for change in changes]
        self._append(records, now_ms)
        if self.sync:
            self._log.flush()
        for record in records:
            assert record.key is not None
            self._fold(record.key, record.value)
        if self._written > OVERTAKEN * len(self._live) + FEW:
            try:
                self.compact(now_ms)
            except StorageFailed as error:
                log.error("journal.not_compacted", reason=error.message)

    def compact(self, now_ms: int) -> None:
        """Write what is true now once more, and nothing else. What was written before stays if the disk refuses."""
        start = self._log.roll(now_ms).base
        live = [NewRecord(key=key, value=value) for key, value in self._live.items()]
        for at in range(0, len(live), A_BATCH):
            self._append(live[at : at + A_BATCH], now_ms)
        self._log.flush()  # in every mode: what is removed next may have been on the disk for a long time
        self._log.truncate_start(Offset(start))
        log.info("journal.compacted", records=len(live), before=self._written)
        self._written = len(live)

    def _append(self, records: list[NewRecord], now_ms: int) -> None:
        batch = Batch.at(memoryview(build_batch(records, timestamp=now_ms)))
        self._log.append(batch, base=self._log.end, leader_epoch=0, now_ms=now_ms)

    def _fold(self, key: bytes, value: bytes | None) -> None:
        self._written += 1
        if value is None:
            self._live.pop(key, None)
        else:
            self._live[key] = value

    @property
    def end(self) -> int:
        return self._log.end

    @property
    def synced_to(self) -> int:
        return self._log.recovery_point

    @property
    def offline(self) -> str:
        return self._log.offline

    def check_online(self) -> None:
        if self._log.offline:
            raise StorageFailed(self._log.offline)

    def go_offline(self, reason: str) -> None:
        self._log.go_offline(reason)

    def unsynced(self) -> SyncJob | None:
        """What a thread has to do so that everything written is safe; then tell `synced`."""
        return self._log.unflushed()

    def synced(self, upto: Offset) -> None:
        self._log.flushed(upto)

    def close(self) -> None:
        self._log.close(clean=True)


def _value(change: Change) -> bytes | None:
    return None if change.value is None else _dump(dict(change.value))


def _dump(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
