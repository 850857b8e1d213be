"""No request costs much more than itself: one that names a thing a hundred thousand times stops nobody.

Every array of every request that is served is filled with copies of one element, as many as a request may hold, and
sent to a broker that has something to say of each (`catalogue.py`).  Whatever the answer is, a refusal or a long list,

- nobody waits for it longer than for one large request: the loop is never busy for more than `LONGEST_TURN` seconds of
  processor time, which does not depend on how crowded the machine is;
- it takes no more than `MOST_MEMORY`;
- others are answered while it is made.

By default the newest version of each request is tried at full size and the oldest with a tenth of it; `make torture`
tries every version at full size.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker_lite.apis import registry
from broker_lite.broker.responses import MAX_BYTES
from broker_lite.config.start import TopicAtStart
from broker_lite.errors import Malformed
from broker_lite.wire.codec import BUDGET
from tests.amplification.bystander import Bystander, memory, new_peak
from tests.amplification.catalogue import PARTITIONS, fill
from tests.amplification.requests import TOPIC, Repeated, repeated
from tests.support.talk import Talk, talking

pytestmark = pytest.mark.slow

EVERYTHING = bool(os.environ.get("BROKER_LITE_TORTURE"))
LONGEST_TURN = 1.0
"""Seconds of processor time. To decode a hundred thousand elements takes a tenth of it."""
MOST_MEMORY = 256 << 20
"""The objects of the largest request and of the largest response, and the bytes of the latter."""
AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}

registry.load()


def versions(of: range) -> Iterator[tuple[int, int]]:
    """Version, and how many elements."""
    for version in of:
        if EVERYTHING or version == of[-1]:
            yield version, BUDGET
        elif version == of[0]:
            yield version, BUDGET // 10


REQUESTS = [
    one
    for api in registry.REGISTRY.table()
    for version, most in versions(api.versions)
    for one in repeated(api, version, most=most)
]


@pytest.fixture
async def permitted(tmp_path: Path) -> AsyncIterator[Talk]:
    settings = AUTHORIZER | {"super.users": "User:ANONYMOUS", "group.initial.rebalance.delay.ms": "0"}
    topics = [TopicAtStart(TOPIC, PARTITIONS, {"retention.ms": "1000"})]
    async with talking(tmp_path, settings=settings, topics=topics) as talk:
        await fill(talk)
        yield talk


async def ask(talk: Talk, frame: memoryview) -> int:
    """The size of the answer; 0 if the connection would be closed."""
    try:
        return len(await talk.ask_raw(frame) or b"")
    except Malformed:
        return 0


async def check(talk: Talk, one: Repeated, topic_id: bytes) -> list[str]:
    """What is wrong with how a request was answered."""
    frame = talk.frame(one.request(topic_id), one.version)
    gc.collect()
    new_peak()
    bystander, before, started = Bystander(talk), memory("VmRSS"), time.thread_time()
    life = asyncio.create_task(bystander.live())
    try:
        await asyncio.sleep(0)
        size = await ask(talk, frame)
        await asyncio.sleep(0)
    finally:
        life.cancel()
    busy, peak = time.thread_time() - started, memory("VmHWM") - before
    wrong = []
    if bystander.longest_turn > LONGEST_TURN:
        wrong.append(f"a turn of {bystander.longest_turn:.2f} s")
    if peak > MOST_MEMORY:
        wrong.append(f"{peak >> 20} MiB of memory")
    if size > MAX_BYTES:
        wrong.append(f"an answer of {size} bytes")
    if busy > LONGEST_TURN and bystander.answered < 10:
        wrong.append(f"{bystander.answered} answers to others in {busy:.2f} s")
    if talk.broker.responses.pending:
        wrong.append(f"{talk.broker.responses.pending} bytes are still pending")
    if os.environ.get("AMPLIFICATION_FIGURES"):
        print(f"{busy:7.3f} s, turn {bystander.longest_turn:.3f}, {peak >> 20:4} MiB, {len(frame)} -> {size}  {one}")
    return [f"{one} ({len(frame)} bytes, {one.count} times): {problem}" for problem in wrong]


@pytest.mark.timeout(0)
async def test_nothing_named_often_stops_anybody(permitted: Talk) -> None:
    topic = permitted.broker.topics.get(TOPIC)
    assert topic is not None
    wrong = []
    for one in REQUESTS:
        if one.api.only_if is None:
            wrong += await check(permitted, one, topic.id)
    assert not wrong, "\n".join(wrong)


@pytest.mark.timeout(0)
async def test_nothing_named_often_by_somebody_who_may_nothing_stops_anybody(tmp_path: Path) -> None:
    async with talking(tmp_path, settings=AUTHORIZER, topics=[TopicAtStart(TOPIC, PARTITIONS, {})]) as talk:
        topic = talk.broker.topics.get(TOPIC)
        assert topic is not None
        wrong = []
        for one in REQUESTS:
            if one.api.only_if is None and one.version == one.api.versions[-1]:
                fewer = one if EVERYTHING else replace(one, count=max(1, one.count // 4))
                wrong += await check(talk, fewer, topic.id)
        assert not wrong, "\n".join(wrong)
