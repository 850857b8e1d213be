"""The metadata journal: topics, their configurations, users, access rules, and ids given away.

One log in the folder `@journal` (no topic can be called that), one batch per decision: a decision is there whole or not
at all.  Each record says what is now true of one thing: its key is the JSON list [kind, name], its value a JSON object,
or null when the thing is gone.  Folding the log from the start gives the state; that is the only way state comes back
after a restart.

All of it or no start.  Before anything is changed on the disk the whole journal is read and checked; where it is not
what was written (see `log.strict`), or says something that this version does not understand, the start is refused with
the file and the byte.  A record of a kind, or with a field, that is not known was written by a later version: to ignore
it could mean to ignore a condition of an access rule, and the next change would write the record without it.  So there
is no number for the format: a later version that adds a kind or a field is recognised by it.

The journal stays small: when most of its records have been overtaken by later ones, everything that is true now is
written once more into a new segment, synced, and the segments before it are removed.  A crash at any point of this
leaves a journal that folds to the same state, because a snapshot only repeats what the records before it say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from broker_lite.errors import BrokerError, StartRefused, StorageFailed
from broker_lite.ids import Offset
from broker_lite.log.disk import Disk
from broker_lite.log.log import Log, LogSettings
from broker_lite.log.opening import open_log
from broker_lite.log.settings import FOREVER
from broker_lite.log.strict import LogDamaged, Place, read_whole
from broker_lite.log.sync import SyncJob
from broker_lite.logs import get_logger
from broker_lite.records.batch import Batch
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.record import Record, records_of
from broker_lite.shapes import dataclass

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

log = get_logger(__name__)

FOLDER = "@journal"
OVERTAKEN = 3
FEW = 1000
"""A journal is compacted when it has more records than so many times what is true, and these."""
A_BATCH = 1000
SETTINGS = LogSettings(segment_ms=FOREVER, sync_rolls=True)
"""Age is no reason to roll; and what lies before the last segment is synced, so that only its end can be torn."""
_NOT_UNDERSTOOD = (KeyError, IndexError, ValueError, TypeError, AttributeError, AssertionError, RecursionError)
"""What reading a record that was never meant to be read here may raise."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is now true of one thing; `value` None: it is gone."""

    kind: str
    name: str
    value: Mapping[str, Json] | None


@dataclass(frozen=True, slots=True)
class Kind:
    """Who keeps the things of one kind, and which fields say all about one of them; None: they have any names."""

    apply: Callable[[Change], None]
    fields: Mapping[str, type] | None


class Journal:
    def __init__(self, folder: Path, disk: Disk, *, now_ms: int, sync: bool) -> None:
        self._folder = folder
        self._disk = disk
        self._now_ms = now_ms
        self.sync = sync
        """A write returns when the disk has it; else it is for somebody else to see to that."""
        self._opened: Log | None = None
        self._live: dict[bytes, bytes] = {}
        """What is true now, as it was written."""
        self._written = 0
        """Records in the log."""

    @classmethod
    def open(cls, data: Path, disk: Disk, *, now_ms: int, sync: bool) -> Journal:
        """Nothing is read or changed yet: `load` it, then `begin`."""
        return cls(data / FOLDER, disk, now_ms=now_ms, sync=sync)

    # ---- reading

    def load(self, kinds: Mapping[str, Kind]) -> None:
        """Apply everything that is written down. StartRefused where that cannot be; the disk is as it was."""
        for place, change in self._changes():
            try:
                _check(change, kinds)
                kinds[change.kind].apply(change)
            except (*_NOT_UNDERSTOOD, BrokerError) as error:
                where = f"{place.path}, byte {place.position}"
                what = f"the record of {change.kind[:100]!a} {change.name[:100]!a} is not understood"
                why = " ".join(str(error)[:300].split())
                raise StartRefused(f"{where}: {what}: {why}; start the version of broker-lite that wrote it") from error

    def replay(self) -> Iterator[Change]:
        """Every change that is still written down, oldest first."""
        return (change for _, change in self._changes())

    def _changes(self) -> Iterator[tuple[Place, Change]]:
        self._live.clear()
        self._written = 0
        if not self._disk.exists(self._folder):
            return
        try:
            for place in read_whole(self._disk, self._folder):
                for record, change in changes_of(place):
                    self._fold(record.key or b"", record.value)
                    yield place, change
        except LogDamaged as error:
            raise StartRefused(f"{error}; {self._remedy}") from None

    @property
    def _remedy(self) -> str:
        return f"nothing was changed, `broker-lite fsck {self._folder.parent}` shows what can be saved"

    # ---- writing

    def begin(self) -> None:
        """Make it ready for changes. What a crash left half written is cut off, and kept beside as `.torn`."""
        if self._opened is not None:
            return
        opened = open_log(
            self._folder,
            self._disk,
            SETTINGS,
            clean=False,
            recovery_point=Offset(0),
            log_start=None,
            now_ms=self._now_ms,
        )
        if opened.recovered.damage is not None:
            raise StartRefused(f"{opened.recovered.damage} ({self._folder}); {self._remedy}")
        torn = opened.recovered.torn
        if torn is not None:
            log.warning("journal.torn_tail_cut", offset=torn.offset, bytes=torn.bytes, kept=torn.path.name)
        self._opened = opened

    @property
    def _log(self) -> Log:
        self.begin()
        assert self._opened is not None
        return self._opened

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
        if self._opened is not None:
            self._opened.close(clean=True)


def changes_of(place: Place) -> list[tuple[Record, Change]]:
    """What one batch says. LogDamaged if that is nothing that a journal may say."""
    try:
        return [(record, _change(record)) for record in records_of(place.batch)]
    except (*_NOT_UNDERSTOOD, BrokerError) as error:
        raise LogDamaged(place.path, place.position, f"the batch holds no changes: {error}"[:300]) from None


def _change(record: Record) -> Change:
    # As text: of bytes json would find out the encoding first, for each record anew.
    kind, name = json.loads((record.key or b"").decode())
    value = None if record.value is None else json.loads(record.value.decode())
    if not (isinstance(kind, str) and isinstance(name, str) and isinstance(value, dict | None)):
        raise TypeError(f"{record.key!r} is not [kind, name], or its value is no object")
    return Change(kind, name, value)


def _check(change: Change, kinds: Mapping[str, Kind]) -> None:
    kind = kinds.get(change.kind)
    if kind is None:
        raise ValueError(f"unknown kind {change.kind[:100]!r}")
    value, fields = change.value, kind.fields
    if value is None or fields is None:
        return
    if value.keys() != fields.keys():
        unknown, missing = value.keys() - fields.keys(), fields.keys() - value.keys()
        raise ValueError(f"unknown field {min(unknown)[:100]!r}" if unknown else f"no field {min(missing)!r}")
    for field, type_ in fields.items():
        if type(value[field]) is not type_:  # JSON knows no others, and True is no number
            raise TypeError(f"{field} is {value[field]!r:.100}, not of type {type_.__name__}")


def _value(change: Change) -> bytes | None:
    return None if change.value is None else _dump(dict(change.value))


def _dump(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
