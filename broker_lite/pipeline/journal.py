"""What our broker's journal tells of topics to somebody who looks at its folder from outside."""

from __future__ import annotations

import json
from dataclasses import dataclass

from broker_lite.log import layout
from broker_lite.pipeline.arrowlog import records
from broker_lite.pipeline.chunks import chunks
from broker_lite.pipeline.store import Store

JOURNAL = "@journal"
_FAR = 1 << 62


@dataclass(frozen=True, slots=True)
class Told:
    partitions: int
    configs: dict[str, str]
    """What was set on the topic; the broker's own defaults are not among it."""


def topics_in(store: Store) -> dict[str, Told] | None:
    """Each topic that there is now; None for a folder that has no journal."""
    names = [one.name for one in store.listing(JOURNAL) if one.name.endswith(layout.LOG)]
    if not names:
        return None
    found: dict[str, Told] = {}
    for name in names:
        with store.open(f"{JOURNAL}/{name}") as file:
            for piece in chunks(file, f"{JOURNAL}/{name}", start=0, end=_FAR):
                if piece.fault is not None:
                    break
                for rows in records(piece):
                    for key, value in zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True):
                        _follow(found, key, value)
    return found


def _follow(found: dict[str, Told], key: bytes, value: bytes | None) -> None:
    kind, name = json.loads(key)
    if kind != "topic":
        return
    found.pop(name, None)
    if value is not None:
        told = json.loads(value)
        found[name] = Told(told["partitions"], told["configs"])
