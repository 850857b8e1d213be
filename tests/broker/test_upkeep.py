"""What the broker does by itself while time passes."""

from __future__ import annotations

import errno
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
import structlog.testing

from broker_lite.broker import recovery
from broker_lite.clock import ManualClock
from broker_lite.config.start import Durability, TopicAtStart
from broker_lite.ids import Offset
from broker_lite.log import checkpoints, layout
from broker_lite.log.disk import RealDisk
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.record import records_of
from tests.crash.refusing_disk import RefusingDisk, brokers_on
from tests.support.talk import NOW, Talk, talking

DAY = 86_400.0


def topic(**configs: str) -> list[TopicAtStart]:
    return [TopicAtStart("t", 1, {key.replace("_", "."): value for key, value in configs.items()})]


async def until(true: object) -> None:
    """Threads do the work; wait for what they bring about."""
    assert callable(true)
    with anyio.fail_after(10):
        while not true():
            await anyio.sleep(0.005)


async def fill(talk: Talk, count: int) -> None:
    for _ in range(count):
        assert (await talk.produce("t", b"x" * 100)).error_code == 0


@pytest.mark.parametrize("durability", [Durability.OS, Durability.MEMORY])
async def test_sealed_segments_are_synced_and_the_recovery_point_follows(
    tmp_path: Path, durability: Durability
) -> None:
    async with talking(tmp_path, durability=durability, topics=topic(segment_bytes="500")) as talk:
        await fill(talk, 20)
        partition = talk.broker.topics.partition("t", 0)
        assert partition.log.recovery_point == 0
        talk.broker.upkeep.tick()
        active = partition.log.segments[-1].base
        await until(lambda: partition.log.recovery_point == active)
        talk.broker.upkeep.tick()
        if durability is Durability.OS:
            points = checkpoints.read_offsets(RealDisk(), tmp_path / layout.RECOVERY_POINTS)
            assert points[partition.tp] == active


async def test_old_segments_are_deleted_and_the_log_start_is_written_down(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with talking(
        tmp_path, clock, durability=Durability.OS, topics=topic(segment_bytes="500", retention_ms="86400000")
    ) as talk:
        await fill(talk, 20)
        partition = talk.broker.topics.partition("t", 0)
        clock.advance(DAY)
        talk.broker.upkeep.tick()
        assert partition.offsets.start == 0
        clock.advance(301)
        talk.broker.upkeep.tick()
        assert (partition.offsets.start, partition.offsets.end) == (20, 20)
        starts = checkpoints.read_offsets(RealDisk(), tmp_path / layout.LOG_STARTS)
        assert starts[partition.tp] == 20
        assert list((tmp_path / "t-0").glob("*.log.deleted"))
        talk.broker.upkeep.tick()
        for _ in range(10):
            clock.advance(61)
            talk.broker.upkeep.tick()
        assert not list((tmp_path / "t-0").glob("*.deleted"))
        assert (await talk.produce("t", b"next")).base_offset == 20
    async with talking(tmp_path, clock, durability=Durability.OS) as talk:
        assert talk.broker.topics.partition("t", 0).offsets.start == 20


async def test_a_clock_that_leaps_deletes_nothing(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with talking(tmp_path, clock, topics=topic(segment_bytes="500", retention_ms="86400000")) as talk:
        await fill(talk, 20)
        partition = talk.broker.topics.partition("t", 0)
        for leap in (3600.0, DAY, 74 * 365 * DAY, -100 * 365 * DAY):
            clock.jump_wall(leap)
            clock.advance(400)
            talk.broker.upkeep.tick()
            assert (partition.offsets.start, partition.offsets.end) == (0, 20)


async def test_a_compacted_topic_is_compacted_while_it_is_used(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    configs = topic(segment_bytes="2000", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    async with talking(tmp_path, clock, durability=Durability.OS, topics=configs) as talk:
        partition = talk.broker.topics.partition("t", 0)
        for number in range(200):
            records = [NewRecord(b"%d" % (number % 5), b"%d" % number * 20)]
            await talk.produce("t", batch=build_batch(records, timestamp=NOW))
        size = partition.log.size_bytes
        talk.broker.upkeep.tick()
        await until(lambda: partition.log.recovery_point == partition.log.segments[-1].base)
        clock.advance(16)
        await until(lambda: partition.log.size_bytes < size / 4)
        await until(lambda: (tmp_path / layout.CLEANED_UP_TO).exists())
        cleaned = checkpoints.read_offsets(RealDisk(), tmp_path / layout.CLEANED_UP_TO)
        assert cleaned == {partition.tp: partition.log.segments[-1].base}
        points = checkpoints.read_offsets(RealDisk(), tmp_path / layout.RECOVERY_POINTS)
        assert points[partition.tp] >= cleaned[partition.tp]
        assert not await talk.broker.upkeep.cleaner.clean_one()
        assert (await talk.produce("t", batch=build_batch(records, timestamp=NOW))).base_offset == 200
    async with talking(tmp_path, clock, durability=Durability.OS) as talk:
        partition = talk.broker.topics.partition("t", 0)
        assert partition.offsets.end == 201
        keys = {record.key for one in partition.log.batches(Offset(0)) for record in records_of(one)}
        assert keys == {b"%d" % number for number in range(5)}


async def test_a_topic_that_is_deleted_while_it_is_compacted_leaves_nothing(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    configs = topic(segment_bytes="2000", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    async with talking(tmp_path, clock, durability=Durability.OS, topics=configs) as talk:
        for number in range(200):
            records = [NewRecord(b"%d" % (number % 5), b"%d" % number * 20)]
            await talk.produce("t", batch=build_batch(records, timestamp=NOW))
        talk.broker.topics.partition("t", 0).log.flush()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(talk.broker.upkeep.cleaner.clean_one)
            await anyio.lowlevel.checkpoint()
            assert talk.broker.topics.partition("t", 0).log.head.held
            known = talk.broker.topics.get("t")
            assert known is not None
            talk.broker.delete_topic(known)
            talk.broker.topics.create("t", 1, {})
        assert (await talk.produce("t", b"new")).base_offset == 0
        names = {path.name for path in (tmp_path / "t-0").iterdir()}
        assert not {name for name in names if name.endswith((".swap", ".deleted"))}
        assert talk.broker.topics.partition("t", 0).log.size_bytes < 200


async def test_a_torn_tail_is_told_and_a_long_scan_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking(tmp_path, durability=Durability.OS, topics=topic(segment_bytes="1000")) as talk:
        await fill(talk, 20)
    (tmp_path / layout.CLEAN_SHUTDOWN).unlink()
    checkpoints.write_offsets(RealDisk(), tmp_path / layout.RECOVERY_POINTS, {}, sync=False)
    last = max((tmp_path / "t-0").glob("*.log"))
    with last.open("ab") as file:
        file.write(b"half a batch")
    monkeypatch.setattr(recovery, "MUCH", 1)
    with structlog.testing.capture_logs() as said:
        async with talking(tmp_path, durability=Durability.OS) as talk:
            assert talk.broker.topics.partition("t", 0).offsets.end == 20
    told = {line["event"]: line for line in said}
    assert told["log.torn_tail_cut"]["bytes"] == 12
    whole = sum(path.stat().st_size for path in (tmp_path / "t-0").glob("*.log"))
    assert told["recovery.scanning"]["bytes"] == whole + 12


async def test_a_stop_does_not_wait_for_a_round_of_compaction(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    configs = topic(segment_bytes="1000000", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    async with talking(tmp_path, clock, durability=Durability.OS, topics=configs) as talk:
        partition = talk.broker.topics.partition("t", 0)
        for number in range(3000):
            records = [NewRecord(b"%d" % (number + one), b"x") for one in range(50)]
            partition.append(memoryview(build_batch(records, timestamp=NOW)), api_version=9, now_ms=NOW)
        partition.log.roll(NOW)
        partition.log.flush()
        await anyio.sleep(0)
        clock.advance(16)
        await until(lambda: partition.log.head.held)
        size = partition.log.size_bytes
    assert partition.log.size_bytes == size
    assert not list((tmp_path / "t-0").glob("*.cleaned"))
    assert (tmp_path / layout.CLEAN_SHUTDOWN).exists()


async def test_a_round_that_finds_the_disk_full_is_tried_again_and_damage_is_not(tmp_path: Path) -> None:
    configs = topic(segment_bytes="2000", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    async with talking(tmp_path, durability=Durability.OS, topics=configs) as talk:
        for number in range(100):
            records = [NewRecord(b"%d" % (number % 5), b"%d" % number * 20)]
            await talk.produce("t", batch=build_batch(records, timestamp=NOW))
        partition = talk.broker.topics.partition("t", 0)
        partition.log.flush()
        size, cleaner = partition.log.size_bytes, talk.broker.upkeep.cleaner
        blocked = tmp_path / "t-0" / "00000000000000000000.log.cleaned"
        blocked.mkdir()  # a file cannot be made here
        (blocked / "x").write_bytes(b"")
        with structlog.testing.capture_logs() as said:
            await cleaner.clean_all()
        assert [line["event"] for line in said] == ["log.not_compacted"]
        assert (partition.log.size_bytes, partition.log.head.held) == (size, False)
        (blocked / "x").unlink()
        blocked.rmdir()
        with partition.log.segments[1].path.open("r+b") as file:
            file.seek(100)
            file.write(b"damage")
        with structlog.testing.capture_logs() as said:
            await cleaner.clean_all()
            await cleaner.clean_all()
        assert [line["event"] for line in said] == ["log.uncleanable"]
        assert (partition.log.size_bytes, partition.log.head.held) == (size, False)


async def test_a_log_that_kafka_compacted_behind_its_recovery_point_is_not_damaged(tmp_path: Path) -> None:
    configs = topic(segment_bytes="2000", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    async with talking(tmp_path, durability=Durability.OS, topics=configs) as talk:
        for number in range(100):
            records = [NewRecord(b"%d" % (number % 5), b"%d" % number * 20)]
            await talk.produce("t", batch=build_batch(records, timestamp=NOW))
        partition = talk.broker.topics.partition("t", 0)
        partition.log.flush()
        await talk.broker.upkeep.cleaner.clean_all()
    (tmp_path / layout.CLEAN_SHUTDOWN).unlink()
    checkpoints.write_offsets(RealDisk(), tmp_path / layout.RECOVERY_POINTS, {partition.tp: 0}, sync=False)
    async with talking(tmp_path, durability=Durability.OS) as talk:
        assert talk.broker.topics.partition("t", 0).log.recovered.damage is None
        assert (await talk.produce("t", batch=build_batch(records, timestamp=NOW))).base_offset == 100


async def test_silent_producers_are_looked_for_as_often_as_the_configuration_says(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    settings = {"producer.id.expiration.ms": "2000", "producer.id.expiration.check.interval.ms": "5000"}
    async with talking(tmp_path, clock, settings=settings, topics=topic()) as talk:
        partition = talk.broker.topics.partition("t", 0)
        assert (await talk.produce("t", b"x", producer=(7, 0, 0))).error_code == 0
        known = []
        for _ in range(6):
            clock.advance(1)
            talk.broker.upkeep.tick()
            known.append(len(partition.describe_producers()))
        assert known == [1, 1, 1, 1, 0, 0]


async def test_retention_on_a_full_disk_gives_back_what_it_can(tmp_path: Path) -> None:
    """Everything has expired, but there is no room for the new segment that has to come before the active one goes."""
    disk, clock = RefusingDisk(), ManualClock(NOW)
    configs = topic(segment_bytes="500", retention_ms="60000", file_delete_delay_ms="1000")
    with brokers_on(disk):
        async with talking(tmp_path, clock, durability=Durability.OS, topics=configs) as talk:
            await fill(talk, 20)
            log = talk.broker.topics.partition("t", 0).log
            active = log.segments[-1].base
            clock.advance(3600)
            disk.refuse("append_bytes", "append", "write_atomic", "open")
            for _ in range(40):
                clock.advance(1)
                talk.broker.upkeep.tick()
            assert (log.start, len(log.segments)) == (active, 1)
            assert len(list((tmp_path / "t-0").glob("*.log*"))) <= 2  # the active one, and one that was to follow it
            disk.heal()
            await fill(talk, 1)
            assert log.end == 21


async def test_a_segment_that_cannot_be_looked_at_does_not_keep_upkeep_from_the_others(tmp_path: Path) -> None:
    disk, clock = RefusingDisk(), ManualClock(NOW)
    configs = {"segment.bytes": "500", "retention.ms": "60000"}
    with brokers_on(disk):
        topics = [TopicAtStart(name, 1, configs) for name in ("t", "u")]
        async with talking(tmp_path, clock, durability=Durability.OS, topics=topics) as talk:
            await fill(talk, 20)
            for _ in range(20):
                await talk.produce("u", b"x" * 100)
            clock.advance(3600)
            for name in ("t", "u"):
                for segment in talk.broker.topics.partition(name, 0).log.segments[:-1]:
                    segment.forget_index()
                    segment._top = None
            for path in (tmp_path / "t-0").glob("*.timeindex"):
                path.unlink()
            disk.evict()
            disk.refuse("open", path="*/t-0/*", error=errno.EIO)
            with structlog.testing.capture_logs() as said:
                for _ in range(40):
                    clock.advance(1)
                    talk.broker.upkeep.tick()
            assert {line["event"] for line in said} >= {"retention.failed", "segments.deleted"}
            assert "background.failed" not in {line["event"] for line in said}
            assert talk.broker.topics.partition("u", 0).log.start == 20


@pytest.mark.parametrize("kind", ["remove", "open", "sync", "replace", "rename"])
async def test_a_compaction_that_is_refused_is_done_when_the_disk_heals(tmp_path: Path, kind: str) -> None:
    disk, clock = RefusingDisk(), ManualClock(NOW)
    configs = topic(segment_bytes="2000", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    with brokers_on(disk):
        async with talking(tmp_path, clock, durability=Durability.OS, topics=configs) as talk:
            for number in range(100):
                records = [NewRecord(b"%d" % (number % 5), b"%d" % number * 20)]
                await talk.produce("t", batch=build_batch(records, timestamp=NOW))
            log = talk.broker.topics.partition("t", 0).log
            log.flush()
            size, cleaner = log.size_bytes, talk.broker.upkeep.cleaner
            disk.refuse(kind, path="*/t-0/*")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cleaner.clean_all)
                await until(lambda: disk.refused_calls)
                await anyio.sleep(0.05)
                assert (log.size_bytes, log.offline) == (size, "")
                assert (
                    await talk.produce("t", batch=build_batch([NewRecord(b"k", b"v")], timestamp=NOW))
                ).base_offset == 100
                disk.heal()
                clock.advance(1)
            await cleaner.clean_all()
            assert log.size_bytes < size / 2
            assert not log.head.held
            values = {record.key: record.value for batch in log.batches(Offset(0)) for record in records_of(batch)}
            assert values == {b"k": b"v"} | {b"%d" % (n % 5): b"%d" % n * 20 for n in range(95, 100)}
        assert talk.broker.stopped_cleanly
