"""The metadata journal: topics, their configurations, and ids given away.

One log in the folder `@journal` (no topic can be called that), one batch per decision: a decision is there whole or not
at all.  Each record says what is now true of one thing: its key is the JSON list [kind, name], its value a JSON object,
or null when the thing is gone.  Folding the log from the start gives the state; that is the only way state comes back
after a restart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from broker_lite.errors import StartRefused
from broker_lite.ids import Offset
from broker_lite.log.disk import Disk
from broker_lite.log.log import Log, LogSettings
from broker_lite.records.batch import Batch
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.record import records_of

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

FOLDER = "@journal"


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
        self._sync = sync

    @classmethod
    def open(cls, data: Path, disk: Disk, *, now_ms: int, sync: bool) -> Journal:
        log = Log.open(
            data / FOLDER, disk, LogSettings(), clean=False, recovery_point=None, log_start=None, now_ms=now_ms
        )
        return cls(log, disk, sync=sync)

    def replay(self) -> Iterator[Change]:
        """Every change ever written, oldest first."""
        for batch in self._log.batches(Offset(0)):
            for record in records_of(batch):
                if record.key is None:
                    raise StartRefused(f"the journal {FOLDER} has a record without a key at offset {record.offset}")
                kind, name = json.loads(record.key)
                yield Change(kind, name, None if record.value is None else json.loads(record.value))

    def write(self, changes: list[Change], now_ms: int) -> None:
        """All of `changes` or, if the disk refuses, none. Durable on return as far as the durability mode promises."""
        records = [NewRecord(key=_dump([change.kind, change.name]), value=_value(change)) for change in changes]
        batch = Batch.at(memoryview(build_batch(records, timestamp=now_ms)))
        self._log.append(batch, base=self._log.end, leader_epoch=0, now_ms=now_ms)
        if self._sync:
            self._log.flush()

    @property
    def end(self) -> int:
        return self._log.end

    def close(self) -> None:
        self._log.close(clean=True)


def _value(change: Change) -> bytes | None:
    return None if change.value is None else _dump(dict(change.value))


def _dump(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
