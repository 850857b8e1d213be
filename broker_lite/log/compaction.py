"""Compaction: of each key only the last value stays.

A log has a clean head, where that is already true, and a dirty tail.  A round takes as much of the tail as it may:
sealed segments that lie before the last stable offset and the recovery point and are older than
`min.compaction.lag.ms`.  Two passes:

1. read the tail, and note where each key occurs last (`KeyMap`);
2. read everything up to there, head and tail, and copy what stays (`Sieve`) into new segments, several old ones into
   one as long as they fit.  Each new one takes the place of its old ones at once (`swap`), while readers read on.

Offsets never change.  The reading and copying is done by a thread, which has leases on the files and touches nothing
else of the log; between its steps the log's own thread takes over.  `pace` is called by the thread for each batch and
within large ones, to make room for others or to end the round by raising.  A round that ends early leaves what it has
swapped and no trace of the rest.

Before the recovery point no offset is expected to be there, behind it a missing one is damage.  So the recovery point
has to be on the platter before the first swap, which is the caller's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from broker_lite.ids import Offset
from broker_lite.log import layout, swap
from broker_lite.log.aborted import AbortedTxn
from broker_lite.log.keymap import KeyMap
from broker_lite.log.log import Log
from broker_lite.log.port import Bytes, File
from broker_lite.log.scan import Damaged, is_intact, whole
from broker_lite.log.segment import Segment
from broker_lite.log.sifting import LastRecord, Passing, Sieve
from broker_lite.log.spans import Pace, handfuls, opened
from broker_lite.records.batch import MAGIC, Batch
from broker_lite.shapes import dataclass

_WRITE_AT = 1 << 20
_FILES_AT_ONCE = 64
"""Leased by a round; however many segments there are, others need descriptors too."""


@dataclass(frozen=True, slots=True)
class Plan:
    first_dirty: Offset
    upper: Offset
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """Something dirty is older than `max.compaction.lag.ms`."""

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / max(1, self.dirty_bytes + self.clean_bytes)


def plan(log: Log, *, first_dirty: int, stable: Offset, now_ms: int) -> Plan | None:
    """What a round would take; None if there is nothing to do, or not enough to be worth it."""
    cleanup = log.settings.cleanup
    if not cleanup.compact or log.offline or log.head.held:
        return None
    *sealed, active = log.segments
    if not log.start <= first_dirty <= active.base:
        first_dirty = log.start
    limit = min(stable, log.recovery_point, active.base)
    upper, clean_bytes, dirty_bytes, oldest = first_dirty, 0, 0, now_ms
    for segment in sealed:
        if segment.next_offset <= first_dirty:
            clean_bytes += segment.size
            continue
        if segment.next_offset > limit or (cleanup.min_lag_ms > 0 and _newest(segment) > now_ms - cleanup.min_lag_ms):
            break
        oldest = min(oldest, segment.first_timestamp if segment.first_timestamp >= 0 else segment.created_ms)
        upper, dirty_bytes = segment.next_offset, dirty_bytes + segment.size
    overdue = now_ms - oldest > cleanup.max_lag_ms
    found = Plan(Offset(first_dirty), Offset(upper), clean_bytes, dirty_bytes, overdue)
    return found if dirty_bytes and (overdue or found.ratio > cleanup.min_dirty_ratio) else None


def _newest(segment: Segment) -> int:
    newest = segment.top[0]
    segment.forget_index()
    return newest if newest >= 0 else segment.created_ms


class Round:
    """One round. `read_keys` and `sift` are for a thread, everything else for the log's own."""

    def __init__(
        self,
        log: Log,
        chosen: Plan,
        *,
        last_records: Mapping[int, LastRecord],
        now_ms: int,
        keys: KeyMap | None = None,
    ) -> None:
        self._log = log
        self._plan = chosen
        self._keys = KeyMap() if keys is None else keys
        self._aborted = [one for one in log.aborted.entries if one.first_offset < chosen.upper]
        self._sieve = Sieve(
            self._keys, Passing(self._aborted), last_records, now_ms, log.settings.cleanup.delete_retention_ms
        )
        self._segments = [one for one in log.segments if one.base < chosen.upper]
        self._draft: Segment | None = None
        self._promoted = False
        self._made_way = False
        self.clean_upto = chosen.first_dirty
        self.read_bytes = 0
        self.written_bytes = 0
        self._leased: list[File] = []
        self._dirty = [segment for segment in self._segments if segment.next_offset > chosen.first_dirty]
        # Of those that ended before, no marker will come by in pass one.
        self._passing = Passing(one for one in self._aborted if one.last_offset >= self._dirty[0].base)
        log.head.held = True

    # --- in a thread ----------------------------------------------------------------------------------------------

    def read_keys(self, part: list[Segment], pace: Pace) -> bool:
        """Pass one, for one of `parts`; False if the memory is full, and the parts that follow are not to be read.

        Afterwards `clean_upto` is where the log will be clean up to.
        """
        for segment in part:
            for batch in self._batches(segment, pace):
                if isinstance(batch, Batch) and not self._note_keys(batch, pace):
                    self.clean_upto = Offset(self._keys.latest + 1)
                    return False
            self.clean_upto = Offset(segment.next_offset)
        return True

    def _note_keys(self, batch: Batch, pace: Pace) -> bool:
        """False if there is no room."""
        keys, passing, first = self._keys, self._passing, self._plan.first_dirty
        if batch.is_control:
            passing.marker(batch)
        elif not passing.batch(batch) and batch.last_offset >= first:
            if not keys.has_room_for(batch.count):
                return False
            contents = opened(batch, pace)
            base, put = batch.base_offset, keys.put
            for few in handfuls(contents[1], pace) if contents is not None else ():
                for span in few:
                    if span.key is not None:
                        put(span.key, base + span.offset_delta)
        keys.latest = batch.last_offset
        return True

    def _batches(self, segment: Segment, pace: Pace) -> Iterator[Batch | memoryview]:
        """Each batch, checked: what is damaged must not get a new checksum. Messages of old come as they are."""
        for step, body in whole(segment.file, 0, segment.size):
            pace()
            if not is_intact(step, body):
                raise Damaged(step.position, f"the batch at offset {step.base} has another checksum than {step.crc}")
            yield Batch(body) if step.magic == MAGIC else body

    def sift(self, group: list[Segment], pace: Pace) -> None:
        """Pass two, for one group that `begin` was called with: copy what stays, to the platter."""
        draft = self._draft
        assert draft is not None
        waiting = bytearray()  # copies: what stays may be little, and must not keep all that was read
        self._sieve.passing.ended = []
        for segment in group:
            position = 0
            for batch in self._batches(segment, pace):
                size = batch.size if isinstance(batch, Batch) else len(batch)
                stays = self._sieve(batch, pace) if isinstance(batch, Batch) else batch
                if stays is not None:
                    waiting += stays
                    step = segment_step(segment, batch, position, stays)
                    draft.note(len(stays), step[0], step[1])
                position += size
                self.read_bytes += size
                if len(waiting) >= _WRITE_AT:
                    draft.file.append([waiting])
                    waiting = bytearray()
        if waiting:
            draft.file.append([waiting])
        draft.file.sync()
        draft.index.add_time(draft.top[0], draft.top[1] - draft.base)
        swap.write_indexes(draft.disk, self._log.path, draft.base, draft.index, self._ended)
        self.written_bytes += draft.size

    # --- in the log's own thread ----------------------------------------------------------------------------------

    def parts(self) -> Iterator[list[Segment]]:
        """What pass one has to read; each is leased until the next one is asked for."""
        for number in range(0, len(self._dirty), _FILES_AT_ONCE):
            part = self._dirty[number : number + _FILES_AT_ONCE]
            self._lease(part)
            yield part
        self._lease([])

    def _lease(self, segments: list[Segment]) -> None:
        leased, self._leased = self._leased, []
        for file in leased:
            file.release()
        for segment in segments:
            segment.file.acquire()
            self._leased.append(segment.file)

    def groups(self) -> list[list[Segment]]:
        """Segments that become one: as many as fit, by their sizes before."""
        settings = self._log.settings
        groups: list[list[Segment]] = []
        size = 0
        for segment in self._segments:
            if segment.base >= self.clean_upto:
                break
            fits = groups and size + segment.size <= settings.segment_bytes and len(groups[-1]) < _FILES_AT_ONCE
            if fits and segment.next_offset - 1 - groups[-1][0].base <= layout.MAX_RELATIVE:
                groups[-1].append(segment)
                size += segment.size
            else:
                groups.append([segment])
                size = segment.size
        return groups

    def begin(self, group: list[Segment]) -> None:
        log, base = self._log, group[0].base
        self._lease(group)
        swap.discard(log.disk, log.path, base)
        draft = Segment(
            log.disk,
            log.path,
            base,
            size=0,
            interval=log.settings.index_interval_bytes,
            created_ms=max(segment.created_ms for segment in group),
            unfinished=layout.CLEANED,
        )
        draft.rebuild()
        draft.file.acquire()
        self._draft = draft

    def promote(self) -> None:
        """The new segment counts, if the power goes now. OSError: the disk refuses, and the old ones stay."""
        assert self._draft is not None
        swap.promote(self._log.disk, self._log.path, self._draft.base, aborted=bool(self._ended))
        self._promoted = True

    def commit(self, group: list[Segment]) -> None:
        """It takes its place. OSError: the disk refuses a part of it, and has to be asked again until it is done.

        Meanwhile the old ones are read on, by the leases on them, under whatever name they have."""
        log, draft = self._log, self._draft
        assert draft is not None
        if not self._made_way:
            delay_ms = log.settings.cleanup.file_delete_delay_ms
            swap.make_way(log.head.graveyard, [segment.base for segment in group], delay_ms=delay_ms)
            self._made_way = True
        swap.commit(log.disk, log.path, draft.base, aborted=bool(self._ended))
        self._promoted = self._made_way = False
        self._close_draft()
        log.head.replace(group, draft.finished(), self._ended)

    @property
    def _ended(self) -> list[AbortedTxn]:
        return self._sieve.passing.ended

    def _close_draft(self) -> None:
        draft, self._draft = self._draft, None
        if draft is not None:
            draft.file.close()
            draft.file.release()

    def end(self) -> None:
        """After the last group, or at any other point. If a commit was refused, that is a stop, or the topic's end:
        the next start finishes it, and until then no segment leaves the log."""
        draft = self._draft
        self._close_draft()
        self._lease([])
        if self._promoted:
            return
        if draft is not None and not self._log.offline:
            with suppress(OSError):  # the next round or the next start removes it
                swap.discard(self._log.disk, self._log.path, draft.base)
        self._log.let_go()

    @property
    def facts(self) -> dict[str, int]:
        sieve = self._sieve
        return {
            "upto": self.clean_upto,
            "keys": len(self._keys),
            "read": sieve.read_records,
            "kept": sieve.kept_records,
            "bytes_before": self.read_bytes,
            "bytes_after": self.written_bytes,
        }


def segment_step(segment: Segment, batch: Batch | memoryview, position: int, stays: Bytes) -> tuple[int, int]:
    """Last offset and highest timestamp of what stays."""
    if isinstance(batch, Batch):
        kept = batch if stays is batch.buf else Batch(memoryview(stays))
        return kept.last_offset, kept.max_timestamp
    step = segment.header(position)
    return step.last, step.max_timestamp
