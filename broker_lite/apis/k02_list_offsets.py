"""ListOffsets: the offset that belongs to a point in time.

Versions
    0    lists segment starts, newest first
    1    one offset and its timestamp
    2    isolation level: the latest offset of a read_committed reader is the last stable one
    4    leader epochs
    6    flexible
    7    timestamp -3: the record with the largest timestamp
    8    timestamp -4: the earliest offset on local disk
    9    timestamp -5: the latest offset in remote storage
    11   timestamp -6: the earliest offset that waits for its upload to remote storage
Not done
    remote storage: -5 and -6 answer offset -1, as Kafka does without it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine

from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.broker.threads import in_a_thread
from broker_lite.clock import alarm
from broker_lite.errors import BrokerError, InvalidRequest, UnsupportedVersion
from broker_lite.partition.lookup import Found, Opened, Question, Unopened, first_in
from broker_lite.partition.partition import Partition
from broker_lite.records.patience import unless
from broker_lite.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_REMOTE = -5
EARLIEST_PENDING_UPLOAD = -6
_SPECIAL_SINCE = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_REMOTE: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_READ_COMMITTED = 1
_LONGEST = 10.0
"""Seconds after which a batch that takes long is given up, as one that cannot be opened."""

_Later = tuple[ListOffsetsPartitionResponse, Partition, int, Opened, Question]


@serves(ListOffsetsRequest, versions="0-11")
def list_offsets(
    ctx: Context, req: ListOffsetsRequest
) -> Steps[ListOffsetsResponse | Coroutine[object, object, ListOffsetsResponse]]:
    times_asked = Counter((topic.name, asked.partition_index) for topic in req.topics for asked in topic.partitions)
    committed = req.isolation_level == _READ_COMMITTED
    later: list[_Later] = []

    response = ListOffsetsResponse(topics=[])
    for topic in req.topics:
        lines: list[ListOffsetsPartitionResponse] = []
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=lines))
        for index, asked in {asked.partition_index: asked for asked in topic.partitions}.items():
            twice = times_asked[topic.name, index] > 1
            lines.append(_answer(ctx, topic.name, asked, committed, later, twice=twice))
            yield 1 + len(lines[-1].old_style_offsets) // 10
    return _answer_later(ctx, response, committed, later) if later else response


def _answer(
    ctx: Context, topic: str, asked: ListOffsetsPartition, committed: bool, later: list[_Later], *, twice: bool
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    try:
        if twice:
            raise InvalidRequest(f"{topic[:249]}-{asked.partition_index} is asked for more than once")
        if asked.timestamp < 0 and ctx.version < _SPECIAL_SINCE.get(asked.timestamp, 2**31):
            raise UnsupportedVersion(f"timestamp {asked.timestamp} means nothing in version {ctx.version}")
        partition = ctx.broker.topics.partition(topic, asked.partition_index)
        partition.check_leader_epoch(asked.current_leader_epoch)
        if ctx.version == 0:
            answer.old_style_offsets = _segment_starts(partition, asked.timestamp, asked.max_num_offsets)
        else:
            opened = Opened()
            try:
                _fill(answer, _find(partition, asked.timestamp, committed, opened))
            except Unopened as missing:
                later.append((answer, partition, asked.timestamp, opened, missing.question))
    except BrokerError as error:
        answer.error_code = error.code
    return answer


async def _answer_later(
    ctx: Context, response: ListOffsetsResponse, committed: bool, later: list[_Later]
) -> ListOffsetsResponse:
    """Batches that take long are opened in a thread, one after the other; then we look again, for meanwhile the log may
    have lost what we were about to look at."""
    for answer, partition, timestamp, opened, missing in later:
        question: Question | None = missing
        while question is not None:
            late = alarm(_LONGEST)
            found = await in_a_thread(_open, question, late, limiter=ctx.broker.inflating)
            opened.learn(question, found)
            try:
                _fill(answer, _find(partition, timestamp, committed, opened))
                question = None
            except Unopened as next_one:
                question = next_one.question
            except BrokerError as error:
                answer.error_code = error.code
                question = None
    return response


def _open(question: Question, late: Callable[[], bool]) -> Found | None:
    with unless(late):
        return first_in(*question)


def _fill(answer: ListOffsetsPartitionResponse, found: tuple[int, int, int]) -> None:
    answer.offset, answer.timestamp, answer.leader_epoch = found


def _find(partition: Partition, timestamp: int, committed: bool, opened: Opened) -> tuple[int, int, int]:
    """Offset, timestamp, leader epoch."""
    offsets = partition.offsets
    if timestamp == LATEST:
        return offsets.visible(committed=committed), -1, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return offsets.start, -1, partition.epoch_at(offsets.start)
    if timestamp in (LATEST_REMOTE, EARLIEST_PENDING_UPLOAD):
        return -1, -1, -1
    if timestamp == MAX_TIMESTAMP:
        found = partition.max_timestamp_offset(opening=opened)
    else:
        found = partition.offset_by_time(timestamp, committed=committed, opening=opened)
    return (-1, -1, -1) if found is None else found


def _segment_starts(partition: Partition, timestamp: int, limit: int) -> list[int]:
    """Version 0 looked at the segments' files: where those written before `timestamp` start, newest first."""
    starts = partition.segment_starts()
    offsets = partition.offsets
    if timestamp == EARLIEST:
        found = [offsets.start]
    elif timestamp == LATEST:
        found = [offsets.high, *(start for start, _ in reversed(starts) if start < offsets.high)]
    else:
        found = [start for start, last_timestamp in reversed(starts) if last_timestamp <= timestamp]
    return [max(offset, offsets.start) for offset in found[: max(limit, 0)]]
