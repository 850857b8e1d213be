"""A data folder read from outside, and a broker read over the wire, without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from broker_lite.ids import TopicPartition
from broker_lite.log.layout import HIGH_WATERMARKS, LOG_STARTS, format_offsets
from broker_lite.pipeline.audit import audit
from broker_lite.pipeline.errors import CutBatch, DataLost, NotThere, PipelineError, WrongOption
from broker_lite.pipeline.folder import Bounds, Folder
from broker_lite.pipeline.journal import Told, topics_in
from broker_lite.pipeline.looking import look
from broker_lite.pipeline.options import read_options
from broker_lite.pipeline.plan import batch_slices
from broker_lite.pipeline.remote import Remote
from broker_lite.pipeline.slices import Place, Slice
from tests.pipeline import filling, folders
from tests.pipeline.building import NOW
from tests.support.broker import BrokerProcess

ONE = TopicPartition("orders", 0)


def offsets(part: Slice) -> list[int]:
    return [offset for rows in part.rows(("offset",)) for offset in rows["offset"].to_pylist()]  # type: ignore[index]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return folders.finish(tmp_path / "data", [folders.idempotent(tmp_path / "data", "orders")])


def test_what_lies_behind_the_high_watermark_is_not_read(data: Path) -> None:
    (data / HIGH_WATERMARKS).write_bytes(format_offsets({ONE: 12}))
    (part,) = batch_slices(read_options({"path": str(data)}, streaming=False))
    assert offsets(part) == list(range(12))


def test_what_lies_before_the_log_start_is_not_read(data: Path) -> None:
    (data / LOG_STARTS).write_bytes(format_offsets({ONE: 7}))
    (part,) = batch_slices(read_options({"path": str(data)}, streaming=False))
    assert offsets(part) == list(range(7, 30))
    with pytest.raises(DataLost, match="offset 3 is gone, the log begins at 7"):
        offsets(Slice(Place(path=str(data)), "orders", 0, 3, 20))
    assert offsets(Slice(Place(path=str(data)), "orders", 0, 3, 20, fail_on_loss=False)) == list(range(7, 20))


def test_a_folder_without_checkpoints_is_read_to_its_last_whole_batch(data: Path) -> None:
    (data / HIGH_WATERMARKS).unlink()
    log = data / "orders-0" / "00000000000000000000.log"
    log.write_bytes(log.read_bytes()[:-3])
    assert Folder(str(data)).bounds(ONE).end == 25


def test_half_a_batch_behind_what_may_be_read_is_no_damage_and_before_it_is(data: Path) -> None:
    log = data / "orders-0" / "00000000000000000000.log"
    whole = log.read_bytes()
    log.write_bytes(whole + whole[:5])
    assert offsets(Slice(Place(path=str(data)), "orders", 0, 0, 30)) == list(range(30))
    log.write_bytes(whole[:-3])
    with pytest.raises(CutBatch, match="is cut"):
        offsets(Slice(Place(path=str(data)), "orders", 0, 0, 30))


@pytest.mark.parametrize("chunk", [100, 1000, 8 << 20])
def test_the_size_of_a_chunk_changes_nothing(data: Path, chunk: int) -> None:
    found = list(Folder(str(data), chunk=chunk).chunks(ONE, 0, 30))
    assert [offset for one in found for offset in one.base_offset.tolist()] == list(range(0, 30, 5))


def test_the_first_offset_at_a_time_is_found(data: Path) -> None:
    folder = Folder(str(data))
    bounds = folder.bounds(ONE)
    assert folder.offset_by_time(ONE, NOW, bounds) == 0
    assert folder.offset_by_time(ONE, NOW + 6, bounds) == 10
    assert folder.offset_by_time(ONE, NOW + 10**6, bounds) is None


def test_committed_data_ends_at_the_first_open_transaction_and_leaves_out_aborted_ones(tmp_path: Path) -> None:
    deals = folders.Written(tmp_path, "orders")
    deals.add(3, producer=7, sequence=0, transactional=True).end(7, commit=False)
    deals.add(2, producer=8, sequence=0, transactional=True).end(8, commit=True)
    deals.add(2).add(2, producer=9, sequence=0, transactional=True).add(4)
    data = folders.finish(tmp_path, [deals])
    options = {"path": str(data), "kafka.isolation.level": "read_committed"}
    (part,) = batch_slices(read_options(options, streaming=False))
    assert offsets(part) == [4, 5, 7, 8]
    (everything,) = batch_slices(read_options({"path": str(data)}, streaming=False))
    assert offsets(everything) == [0, 1, 2, 4, 5, *range(7, 15)]


def test_a_folder_that_is_none_and_a_topic_that_is_none(data: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotThere, match="is no data folder"):
        Folder(str(tmp_path / "empty"))
    with pytest.raises(NotThere, match="there is no folder"):
        Folder(str(tmp_path / "missing"))
    with pytest.raises(NotThere, match="has no topic nothing"):
        batch_slices(read_options({"path": str(data), "subscribe": "nothing"}, streaming=False))


def test_splits_are_cut_between_batches_and_miss_nothing(broker_process: object) -> None:
    broker: BrokerProcess = broker_process("--set", "log.segment.bytes=60000", "--set", "log.index.interval.bytes=500")  # type: ignore[operator]
    filling.create(broker.bootstrap, "orders", partitions=1)
    filling.fill(broker.bootstrap, "orders", count=6000, partitions=1, codec="none")
    broker.stop()
    folder = Folder(str(broker.data))
    bounds = folder.bounds(ONE)
    ranges = folder.split(ONE, 17, bounds.end, 20_000)
    assert len(ranges) > 4
    assert [ranges[0][0], ranges[-1][1]] == [17, 6000]
    assert [end for _, end in ranges[:-1]] == [first for first, _ in ranges[1:]]
    bases = {base for found in folder.chunks(ONE, 0, bounds.end) for base in found.base_offset.tolist()}
    assert {first for first, _ in ranges[1:]} <= bases
    found = [
        one for first, end in ranges for one in offsets(Slice(Place(path=str(broker.data)), "orders", 0, first, end))
    ]
    assert found == list(range(17, 6000))
    log_bytes = sum(one.size for _, one in folder.segments(ONE))
    _, (middle, end) = folder.split(ONE, 0, bounds.end, log_bytes * 9 // 10)
    assert end - middle > 1500, "halves as far as segments allow, not a long one and a rest"
    assert topics_in(folder.store) == {"orders": Told(1, {"retention.ms": "-1"})}


def test_a_topic_that_nobody_wrote_to_is_there_and_empty(broker_process: object) -> None:
    broker: BrokerProcess = broker_process()  # type: ignore[operator]
    filling.create(broker.bootstrap, "orders")
    filling.create(broker.bootstrap, "gone")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics(["gone"])["gone"].result(20)
    folder = Folder(str(broker.data))
    assert folder.partitions() == [ONE, TopicPartition("orders", 1)]
    assert folder.bounds(ONE, committed=True) == Bounds(0, 0)
    assert batch_slices(read_options({"path": str(broker.data), "subscribe": "orders"}, streaming=False)) == []
    filling.fill(broker.bootstrap, "orders", count=1)
    with Remote(broker.bootstrap) as remote:
        assert folder.topic_id("orders") == remote.topic_id("orders") is not None


def test_a_partition_whose_files_were_taken_away_is_no_empty_one(broker_process: object) -> None:
    broker: BrokerProcess = broker_process()  # type: ignore[operator]
    filling.create(broker.bootstrap, "orders", partitions=1)
    filling.fill(broker.bootstrap, "orders", count=20, partitions=1)
    broker.stop()
    shutil.rmtree(broker.data / "orders-0")
    (part,) = batch_slices(read_options({"path": str(broker.data)}, streaming=False))
    with pytest.raises(NotThere, match="has no segments of orders-0"):
        offsets(part)
    report = audit(read_options({"path": str(broker.data)}, streaming=False), lambda tasks: map(look, tasks))
    assert [(one.kind, one.weight, one.text) for one in report.findings] == [
        ("gap", "fault", "offsets 0 to 19 are missing")
    ]


def test_a_file_is_no_data_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(NotThere, match="is a file, not a data folder"):
        Folder(str(tmp_path / "file"))


@pytest.mark.parametrize("pattern", ["rder", "^o.*s$", "__|orders"])
def test_a_pattern_may_match_anywhere_in_a_name_but_no_internal_topic(tmp_path: Path, pattern: str) -> None:
    written = [folders.idempotent(tmp_path / "data", name) for name in ("orders", "__transaction_state", "other")]
    data = folders.finish(tmp_path / "data", written)
    found = batch_slices(read_options({"path": str(data), "subscribePattern": pattern}, streaming=False))
    assert [one.topic for one in found] == ["orders"]


@pytest.mark.parametrize(
    ("options", "error", "why"),
    [
        ({"endingOffsets": '{"orders":{"0":31}}'}, DataLost, "offset 31 is not there, the log ends at 30"),
        (
            {"startingOffsets": '{"orders":{"0":20}}', "endingOffsets": '{"orders":{"0":10}}'},
            WrongOption,
            "orders-0: the start, offset 20, is behind the end, offset 10",
        ),
    ],
)
def test_an_end_that_cannot_be_is_told(data: Path, options: dict[str, str], error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        batch_slices(read_options({"path": str(data), **options}, streaming=False))


def test_an_end_behind_the_log_is_the_logs_end_where_losses_are_allowed(data: Path) -> None:
    told = {"path": str(data), "endingOffsets": '{"orders":{"0":31}}', "failOnDataLoss": "false"}
    (part,) = batch_slices(read_options(told, streaming=False))
    assert (part.first, part.end) == (0, 30)


def test_a_broker_that_goes_away_and_comes_back_is_read_to_the_end(broker_process: object) -> None:
    broker: BrokerProcess = broker_process()  # type: ignore[operator]
    filling.create(broker.bootstrap, "orders", partitions=1)
    filling.fill(broker.bootstrap, "orders", count=500, partitions=1)
    with Remote(broker.bootstrap) as remote:
        assert remote.bounds(ONE).end == 500
        broker.restart(kill=True)
        seen = [offset for found, *_ in remote.chunks(ONE, 0, 500, committed=False) for offset in found.last_offset]
        assert seen[-1] == 499
        with pytest.raises(PipelineError):
            remote.partitions_of("nothing")
    broker.stop()
    with Remote(broker.bootstrap, patience=0.3) as remote, pytest.raises(NotThere, match="cannot connect"):
        remote.topics()
