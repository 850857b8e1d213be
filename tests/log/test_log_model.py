"""A log against the simplest thing that could be one: a list."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker_lite.ids import Offset
from broker_lite.log.disk import Disk, MemoryDisk, RealDisk
from broker_lite.records.batch import walk
from tests.log.building import NOW, append, open_log, read_all, read_bytes


class LogAndList(RuleBasedStateMachine):
    @initialize(memory=st.booleans(), max_open=st.sampled_from([4, 1000]), segment_bytes=st.integers(200, 3000))
    def begin(self, memory: bool, max_open: int, segment_bytes: int) -> None:
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "t-0"
        self.disk: Disk = MemoryDisk() if memory else RealDisk(max_open=max_open)
        self.segment_bytes = segment_bytes
        self.log = open_log(self.path, self.disk, segment_bytes=segment_bytes)
        self.batches: list[tuple[int, int, int]] = []
        """(base, last, timestamp)"""
        self.start = 0
        self.end = 0
        self.epoch = 0

    @rule(records=st.integers(1, 5), size=st.integers(0, 20), later=st.integers(0, 50))
    def append(self, records: int, size: int, later: int) -> None:
        assert append(self.log, *[b"x" * size] * records, timestamp=NOW + later, epoch=self.epoch) == self.end
        self.batches.append((self.end, self.end + records - 1, NOW + later))
        self.end += records

    @rule(records=st.integers(8, 30))
    def append_many(self, records: int) -> None:
        for number in range(records):
            self.append(1, number % 7, number % 11)

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @precondition(lambda self: self.start < self.end)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, self.end))
        self.log.truncate_start(Offset(self.start))
        self.batches = [one for one in self.batches if one[1] >= self.start]

    @rule(clean=st.booleans(), lost_point=st.booleans())
    def restart(self, clean: bool, lost_point: bool) -> None:
        self.log.close(clean=clean)
        point = None if lost_point else self.log.recovery_point
        self.log = open_log(
            self.path,
            self.disk,
            clean=clean,
            recovery_point=point,
            log_start=self.start,
            segment_bytes=self.segment_bytes,
        )
        self.epoch += 1
        self.log.epochs.assign(self.epoch, self.log.end, sync=False)

    @precondition(lambda self: self.start < self.end)
    @rule(data=st.data(), max_bytes=st.integers(1, 2000))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        offset = data.draw(st.integers(self.start, self.end - 1))
        end = data.draw(st.sampled_from([self.end, *[base for base, _, _ in self.batches if base > offset]]))
        got = [
            (one.base_offset, one.last_offset)
            for one in walk(read_bytes(self.log, offset, max_bytes=max_bytes, end=end))
        ]
        due = [(base, last) for base, last, _ in self.batches if last >= offset and base < end]
        assert got
        assert got == due[: len(got)]

    @rule(later=st.integers(-1, 51))
    def find_time(self, later: int) -> None:
        due = [base for base, _, timestamp in self.batches if timestamp >= NOW + later]
        assert [one.base_offset for one in self.log.find_time(NOW + later)] == due

    @invariant()
    def is_the_list(self) -> None:
        assert (self.log.start, self.log.end) == (self.start, self.end)
        assert [(one.base_offset, one.last_offset) for one in walk(read_all(self.log))] == [
            one[:2] for one in self.batches
        ]
        assert self.log.recovered.damage is None

    def teardown(self) -> None:
        self.log.close(clean=False)
        self.folder.cleanup()


TestLogAndList = LogAndList.TestCase
TestLogAndList.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
