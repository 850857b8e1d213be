"""Producer ids come from our own blocks: no client can move the count, and no id is given twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.broker.journal import Change, Journal
from broker_lite.broker.producer_ids import BLOCK, KIND, MAX_FOREIGN, MAX_ID, MAX_JOURNALLED, RESET_MARGIN, ProducerIds
from broker_lite.config.start import Durability, TopicAtStart
from broker_lite.coordinator.txns import schemas
from broker_lite.coordinator.txns.state import Transaction
from broker_lite.errors import BrokerError, ErrorCode
from broker_lite.ids import TRANSACTION_STATE_TOPIC
from broker_lite.log import layout
from broker_lite.log.disk import RealDisk
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.support.talk import NOW, Talk, talking

MODES = pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])
STOPS = pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
TOPICS = [TopicAtStart("t", 1, {})]


async def init(talk: Talk, transactional_id: str | None = None) -> tuple[int, int]:
    """The error and the id."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1000)
    answer = await talk.ask(request, 4, InitProducerIdResponse)
    return answer.error_code, answer.producer_id


def ended(root: Path, *, clean: bool) -> None:
    if not clean:
        (root / layout.CLEAN_SHUTDOWN).unlink()


@MODES
@STOPS
@pytest.mark.parametrize("made_up", [MAX_ID, MAX_ID - 1, 2**62, MAX_JOURNALLED, MAX_FOREIGN, 5000])
async def test_what_a_client_made_up_does_not_move_the_count(
    tmp_path: Path, durability: Durability, clean: bool, made_up: int
) -> None:
    async with talking(tmp_path, durability=durability, topics=TOPICS) as talk:
        assert await init(talk) == (0, 0)
        assert (await talk.produce("t", b"x", producer=(made_up, 0, 0))).error_code == 0
        assert await init(talk) == (0, 1)
    ended(tmp_path, clean=clean)
    async with talking(tmp_path, durability=durability) as talk:
        assert await init(talk) == (0, BLOCK)
        assert await init(talk, "orders") == (0, BLOCK + 1)
        assert (await talk.produce("t", b"y", producer=(made_up, 0, 1))).error_code == 0
        assert (await talk.produce("t", b"y", producer=(BLOCK, 0, 0))).error_code == 0


@MODES
@pytest.mark.parametrize("end", [2**63 + BLOCK, 2**63 - 1, 2**62, MAX_JOURNALLED + 1, -5])
@pytest.mark.parametrize("compacted", [False, True])
async def test_a_journal_that_a_client_got_at_before_is_mended(
    tmp_path: Path, durability: Durability, end: int, compacted: bool
) -> None:
    """The count goes on above what the journal said before or, where that is gone, above what stands in the logs."""
    async with talking(tmp_path, durability=durability, topics=TOPICS) as talk:
        for _ in range(BLOCK + 1):
            last = talk.broker.producer_ids.new()
        for producer_id in (last, MAX_ID, MAX_FOREIGN):
            assert (await talk.produce("t", b"x", producer=(producer_id, 0, 0))).error_code == 0
    journal = Journal.open(tmp_path, RealDisk(), now_ms=NOW, sync=True)
    assert list(journal.replay())
    journal.write([Change(KIND, "next", {"end": end})], NOW)
    if compacted:
        journal.compact(NOW)
    journal.close()
    given = []
    for _ in range(2):
        async with talking(tmp_path, durability=durability) as talk:
            error, producer_id = await init(talk)
            assert error == 0
            given.append(producer_id)
    assert last + RESET_MARGIN < given[0] < given[1] <= last + RESET_MARGIN + 3 * BLOCK


async def test_ids_that_are_used_up_are_an_error_that_a_client_is_told(tmp_path: Path) -> None:
    async with talking(tmp_path, topics=TOPICS) as talk:
        talk.broker.producer_ids._next = talk.broker.producer_ids._end = MAX_ID - BLOCK
        assert await init(talk) == (0, MAX_ID - BLOCK)
        talk.broker.producer_ids._next = talk.broker.producer_ids._end
        assert await init(talk) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1)
        assert await init(talk, "orders") == (ErrorCode.UNKNOWN_SERVER_ERROR, -1)
        assert (await talk.produce("t", b"x")).error_code == 0


def test_a_block_is_written_before_it_is_used() -> None:
    written: list[Change] = []
    ids = ProducerIds(written.extend)
    assert [ids.new() for _ in range(BLOCK + 1)] == list(range(BLOCK + 1))
    assert written == [Change(KIND, "next", {"end": BLOCK}), Change(KIND, "next", {"end": 2 * BLOCK})]


def test_a_block_that_cannot_be_written_gives_no_id() -> None:
    def full(changes: list[Change]) -> None:
        raise BrokerError(f"no room for {changes}")

    ids = ProducerIds(full)
    for _ in range(2):
        with pytest.raises(BrokerError):
            ids.new()


@MODES
async def test_what_somebody_wrote_into_the_transaction_log_does_not_end_the_count(
    tmp_path: Path, durability: Durability
) -> None:
    """As in Kafka, whoever may write there and calls himself an admin client can."""
    async with talking(tmp_path, durability=durability) as talk:
        assert await init(talk, "orders") == (0, 0)
        record = schemas.write(Transaction("evil", MAX_ID, 0, 1000, NOW))
        batch = build_batch([NewRecord(record.key, record.value)], timestamp=NOW)
        talk.client_id = "__admin_client"
        assert (await talk.produce(TRANSACTION_STATE_TOPIC, batch=batch)).error_code == 0
    async with talking(tmp_path, durability=durability) as talk:
        assert await init(talk) == (0, BLOCK)
