"""What many clients say they did and saw, as JSON lines that survive the death of whoever wrote them.

Each process writes a file of its own, one event a line, flushed at once: an operation that was killed leaves its
beginning without an end and counts as "maybe".  Times are of the machine's monotonic clock, which all processes share.

    init    a producer took over a transactional id    name, incarnation, began, at
    txn     a transaction, begun                        txn, name, incarnation, at
    sent    a record handed over, or acknowledged       txn, topic, partition, value, offset (null: not acknowledged)
    offsets offsets put into a transaction              txn, group, topic, partition, offset
    ending  commit or abort was asked for               txn, commit, at
    ended   and answered                                txn, outcome (committed, aborted, fenced or unknown), at
    polled  records that a reader saw, in order         reader, committed, at, records (topic, partition, offset, value)
    final   the last read of a partition                topic, partition, committed, high, stable, records
    group   a group's offset at the end                 group, topic, partition, offset
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Event: TypeAlias = "dict[str, Json]"
Place: TypeAlias = tuple[str, int]
"""Topic and partition."""


class Recorder:
    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("a", buffering=1)

    def __call__(self, what: str, **facts: Json) -> None:
        self._file.write(json.dumps({"what": what, **facts}) + "\n")


@dataclass(slots=True)
class Txn:
    id: str
    name: str
    incarnation: int
    began: float
    sends: list[tuple[Place, str]] = field(default_factory=list)
    acked: dict[str, int] = field(default_factory=dict)
    """Value -> the offset that the broker gave it."""
    offsets: dict[tuple[str, Place], int] = field(default_factory=dict)
    wants_commit: bool | None = None
    asked_at: float | None = None
    ended_at: float | None = None
    outcome: str = "unknown"


@dataclass(slots=True)
class Poll:
    at: float
    records: list[tuple[Place, int, str]]


@dataclass(slots=True)
class Final:
    high: int
    stable: int
    records: list[tuple[int, str]]


@dataclass(slots=True)
class History:
    txns: dict[str, Txn] = field(default_factory=dict)
    inits: dict[str, list[tuple[int, float, float]]] = field(default_factory=dict)
    """Transactional id -> (incarnation, when asked, when answered)."""
    polls: dict[str, list[Poll]] = field(default_factory=dict)
    committed_readers: set[str] = field(default_factory=set)
    committed: dict[Place, Final] = field(default_factory=dict)
    uncommitted: dict[Place, Final] = field(default_factory=dict)
    group_offsets: dict[tuple[str, Place], int] = field(default_factory=dict)

    @classmethod
    def read(cls, paths: Iterable[Path]) -> History:
        return cls.of(event for path in sorted(paths) for event in _lines(path))

    @classmethod
    def of(cls, events: Iterable[Event]) -> History:
        history = cls()
        for event in events:
            history.add(event)
        return history

    def add(self, event: Event) -> None:
        match event:
            case {"what": "init", "name": str(name), "incarnation": int(number), "began": began, "at": at}:
                self.inits.setdefault(name, []).append((number, _number(began), _number(at)))
            case {"what": "txn", "txn": str(txn), "name": str(name), "incarnation": int(number), "at": at}:
                self.txns[txn] = Txn(txn, name, number, _number(at))
            case {"what": "sent", "txn": str(txn), "topic": str(topic), "partition": int(part), "value": str(value)}:
                self._sent(self.txns[txn], (topic, part), value, event.get("offset"))
            case {"what": "offsets", "txn": str(txn), "group": str(group), "topic": str(topic), "partition": int(part)}:
                offset = event["offset"]
                assert isinstance(offset, int)
                self.txns[txn].offsets[group, (topic, part)] = offset
            case {"what": "ending", "txn": str(txn), "commit": bool(commit), "at": at}:
                self.txns[txn].wants_commit, self.txns[txn].asked_at = commit, _number(at)
            case {"what": "ended", "txn": str(txn), "outcome": str(outcome), "at": at}:
                self.txns[txn].outcome, self.txns[txn].ended_at = outcome, _number(at)
            case {
                "what": "polled",
                "reader": str(reader),
                "committed": bool(committed),
                "at": at,
                "records": list(seen),
            }:
                if committed:
                    self.committed_readers.add(reader)
                records = [((str(t), _whole(p)), _whole(o), str(v)) for t, p, o, v in map(_list, seen)]
                self.polls.setdefault(reader, []).append(Poll(_number(at), records))
            case {"what": "final", "topic": str(topic), "partition": int(part), "records": list(found)}:
                kept = self.committed if event["committed"] else self.uncommitted
                held = [(_whole(offset), str(value)) for offset, value in map(_list, found)]
                kept[topic, part] = Final(_whole(event["high"]), _whole(event["stable"]), held)
            case {"what": "group", "group": str(group), "topic": str(topic), "partition": int(part), "offset": int(at)}:
                self.group_offsets[group, (topic, part)] = at
            case _:
                raise ValueError(f"not an event: {event}")

    @staticmethod
    def _sent(txn: Txn, place: Place, value: str, offset: Json) -> None:
        if offset is None:
            txn.sends.append((place, value))
        else:
            txn.acked[value] = _whole(offset)


def _lines(path: Path) -> Iterator[Event]:
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return  # its writer was killed in the middle of the line


def _number(value: Json) -> float:
    assert isinstance(value, (int, float))
    return float(value)


def _whole(value: Json) -> int:
    assert isinstance(value, int)
    return value


def _list(value: Json) -> list[Json]:
    assert isinstance(value, list)
    return value
