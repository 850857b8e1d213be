"""A slice: the offsets of one partition that one task reads, with everything the task has to know.

It is made on the driver, travels to a worker and is read there; a worker shares nothing with the driver but what
stands in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from broker_lite.ids import TopicPartition
from broker_lite.pipeline.arrowlog import RECORDS, records
from broker_lite.pipeline.committed import Aborted, not_aborted
from broker_lite.pipeline.entry import Entry
from broker_lite.pipeline.errors import Damaged, DataLost
from broker_lite.pipeline.folder import Folder
from broker_lite.pipeline.scan import Batches
from broker_lite.pipeline.store import Room
from broker_lite.pipeline.varints import Mask

if TYPE_CHECKING:  # a client costs a tenth of a second, which each of Spark's many processes would pay
    from broker_lite.pipeline.remote import Remote


@dataclass(frozen=True, slots=True)
class Place:
    """A data folder, or a broker; one of the two."""

    path: str | None = None
    bootstrap: str | None = None
    entry: Entry = field(default_factory=Entry)

    @contextmanager
    def opened(self, room: Room | None = None) -> Iterator[Folder | Remote]:
        if self.path is not None:
            yield Folder(self.path, room=room)
        else:
            assert self.bootstrap is not None
            from broker_lite.pipeline.remote import Remote

            with Remote(self.bootstrap, self.entry) as remote:
                yield remote

    def __str__(self) -> str:
        return self.path or self.bootstrap or ""


@dataclass(frozen=True, slots=True)
class Slice:
    place: Place
    topic: str
    partition: int
    first: int
    end: int
    committed: bool = False
    aborted: tuple[Aborted, ...] = ()
    fail_on_loss: bool = True
    on_corrupt: str = "fail"

    @property
    def of(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def pieces(self) -> Iterator[tuple[Batches, Mask, int]]:
        """(batches, which of them are to be seen, the first offset that is); each is only good until the next one."""
        with self.place.opened(Room()) as source:
            if not isinstance(source, Folder):
                yield from source.chunks(
                    self.of, self.first, self.end, committed=self.committed, fail_on_loss=self.fail_on_loss
                )
                return
            start = source.log_start(self.of)
            if start > self.first and self.fail_on_loss:
                raise DataLost(
                    f"{self.topic}-{self.partition} in {self.place}: offset {self.first} is gone, "
                    f"the log begins at {start}"
                )
            for found in source.chunks(self.of, max(self.first, start), self.end):
                yield found, not_aborted(found, self.aborted), max(self.first, start)

    def rows(self, columns: Collection[str] = tuple(RECORDS.names)) -> Iterator[pa.RecordBatch | Damaged]:
        """Records; and, where damage is not an error, a word on each batch that was left out for it."""
        for found, keep, first in self.pieces():
            sound = found.sound()
            if self.on_corrupt == "fail":
                yield from records(found, keep=keep, sound=sound, first=first, end=self.end, columns=columns)
                if found.fault is not None:
                    raise found.fault
            else:
                yield from self._what_is_sound(found, keep, sound, first, columns)

    def _what_is_sound(
        self, found: Batches, keep: Mask, sound: Mask, first: int, columns: Collection[str]
    ) -> Iterator[pa.RecordBatch | Damaged]:
        inside = (found.last_offset >= first) & (found.base_offset < self.end)
        for index in np.flatnonzero(inside & ~sound).tolist():
            yield found.wrong_checksum(index)
        good = keep & sound
        try:
            yield from list(records(found, keep=good, sound=sound, first=first, end=self.end, columns=columns))
        except Damaged:
            for index in np.flatnonzero(good & inside).tolist():
                only = np.arange(len(found)) == index
                try:
                    yield from list(records(found, keep=only, sound=sound, first=first, end=self.end, columns=columns))
                except Damaged as error:
                    yield error
        if found.fault is not None:
            yield found.fault
