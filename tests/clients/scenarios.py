"""The common list of scenarios, written once for all clients.

A scenario carries the API keys it needs, so that a broker which does not advertise them is not blamed, and the
abilities of the client it needs, so that a client without them is not blamed either.  Everything else is a failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tests.clients.client import (
    BEGINNING,
    CODECS,
    EARLIEST,
    LATEST,
    Client,
    ClientError,
    Fenced,
    Headers,
    Record,
    Start,
)
from tests.clients.world import World, same

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 0, 1, 2, 3, 8, 9, 10
JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE_GROUPS, LIST_GROUPS = 11, 12, 13, 14, 15, 16
CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSETS = (
    19,
    20,
    22,
    24,
    25,
    26,
    28,
)
DESCRIBE_CONFIGS, CREATE_PARTITIONS, DELETE_GROUPS, ALTER_CONFIGS, CONSUMER_HEARTBEAT = 32, 37, 42, 44, 68
DATA = frozenset({PRODUCE, FETCH, LIST_OFFSETS, METADATA, CREATE_TOPICS})
GROUP = DATA | {OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN, HEARTBEAT, LEAVE, SYNC}
TRANSACTION = DATA | {FIND_COORDINATOR, INIT_PRODUCER, ADD_PARTITIONS, END_TXN}


def create(world: World) -> None:
    name = world.fresh("create")
    world.client.create_topic(name, partitions=3)
    world.until(lambda: world.reference.partitions_of(name) == 3, "the new topic has 3 partitions")


def describe(world: World) -> None:
    name = world.topic("describe", partitions=3)
    world.until(lambda: world.client.partitions_of(name) == 3, "the client sees 3 partitions")


def create_twice(world: World) -> None:
    name = world.topic("twice")
    try:
        world.client.create_topic(name)
    except ClientError as refused:
        if "exist" in str(refused).lower():
            return
        raise
    raise AssertionError("a topic that exists was created again")


def listing(world: World) -> None:
    names = [world.topic("listing", partitions=n) for n in (1, 2)]
    world.until(lambda: set(names) <= set(world.client.list_topics()), "both topics are listed")


def auto_create(world: World) -> None:
    name, records = world.fresh("auto"), world.records(3)
    world.client.produce(name, records)
    made = range(world.reference.partitions_of(name))
    world.until(
        lambda: sum(world.reference.offset_of(name, LATEST, partition=p) for p in made) == 3, "it holds 3 records"
    )


def produce_with(codec: str) -> Callable[[World], None]:
    def run(world: World) -> None:
        topic, written = world.topic(codec), list[Record]()
        for acks in (-1,) if world.client.costly and codec != "none" else (0, 1, -1):
            records = world.records(20)
            offsets = world.client.produce(topic, records, codec=codec, acks=acks)
            wanted = list(range(len(written), len(written) + len(records)))
            assert offsets in ([], wanted), f"acks={acks}: offsets {offsets}, not {wanted}"
            written += records
            world.holds(topic, len(written))
        same(world.reader.read(topic, BEGINNING, len(written)), written)

    return run


def exchange(world: World) -> None:
    for codec in world.client.exchanged:
        if f"codec-{codec}" in world.client.lacks:
            continue
        topic, mine, theirs = world.topic("exchange"), world.records(10), world.records(10)
        world.client.produce(topic, mine, codec=codec)
        world.reference.produce(topic, theirs, codec=codec)
        same(world.reference.read(topic, BEGINNING, 20), mine + theirs)
        same(world.reader.read(topic, BEGINNING, 20), mine + theirs)


def nulls(world: World) -> None:
    topic = world.topic("nulls")
    records = [
        Record(key=None, value=b"no key"),
        Record(key=b"no value", value=None),
        Record(key=b"both", value=b"here"),
    ]
    if "empty" not in world.client.lacks:
        records += [Record(key=b"", value=b"empty key"), Record(key=b"empty value", value=b"")]
    world.client.produce(topic, records)
    same(world.reader.read(topic, BEGINNING, len(records)), records)


def headers(world: World) -> None:
    topic = world.topic("headers")
    several: Headers = (("trace", b"1"), ("other", b"two"))
    if "twin-headers" not in world.client.lacks:
        several += (("trace", b"3"),)
    records = [
        Record(key=b"a", value=b"with headers", headers=several),
        Record(
            key=b"b",
            value=b"one",
            headers=(("only", b"text" if "header-binary" in world.client.lacks else world.blob(8)),),
        ),
    ]
    world.client.produce(topic, records)
    same(world.reader.read(topic, BEGINNING, 2), records)


def large(world: World) -> None:
    topic = world.topic("large")
    records = [Record(key=b"big", value=world.blob(1_000_000)), Record(key=b"small", value=b"x")]
    for record in records:
        world.client.produce(topic, [record])
    same(world.reader.read(topic, BEGINNING, 2), records)


def from_offset(world: World) -> None:
    topic, records = world.topic("offset"), world.records(30)
    world.client.produce(topic, records, codec="none")
    got = world.reader.read(topic, Start(offset=17), 13)
    same(got, records[17:])
    assert got[0].offset == 17, f"asked for offset 17, got {got[0].offset}"


AN_HOUR_AGO = int(time.time() - 3600) * 1000
TIMES = range(AN_HOUR_AGO, AN_HOUR_AGO + 20_000, 1_000)
"""Young enough to be kept: a broker that minds its retention throws away what is a week old."""


def timed(world: World, codec: str) -> tuple[str, list[Record]]:
    topic = world.topic("time")
    records = [Record(key=b"t", value=b"%d" % at, timestamp=at) for at in TIMES]
    writer = world.reference if "timestamps" in world.client.lacks else world.client
    writer.produce(topic, records, codec=codec)
    return topic, records


def from_timestamp(world: World) -> None:
    for codec in ("none", "gzip"):
        topic, records = timed(world, codec)
        same(world.reader.read(topic, Start(timestamp=TIMES[7] - 500), 13), records[7:])


def offsets(world: World) -> None:
    topic, _ = timed(world, "none")
    for at, wanted in ((EARLIEST, 0), (LATEST, 20), (TIMES[5], 5), (TIMES[5] + 1, 6)):
        found = world.client.offset_of(topic, at)
        assert found == wanted, f"the offset at {at} is {found}, not {wanted}"


def idempotent(world: World) -> None:
    topic, records = world.topic("idempotent"), world.records(50)
    step = 25 if world.client.costly else 10
    for start in range(0, 50, step):
        world.client.produce(topic, records[start : start + step], idempotent=True)
    same(world.reader.read(topic, BEGINNING, 50), records)


def seen(records: Sequence[Record]) -> list[bytes]:
    return sorted(record.value or b"" for record in records)


def after(records: Sequence[Record]) -> dict[int, int]:
    """The offsets to commit when these records are done."""
    return {
        record.partition: max(r.offset + 1 for r in records if r.partition == record.partition) for record in records
    }


def group_resume(world: World, protocol: str = "classic") -> None:
    topic, group, first, second = world.topic("resume"), world.fresh("group"), world.records(10), world.records(10)
    world.reference.produce(topic, first)
    world.client.join("one", group=group, topic=topic, protocol=protocol)
    taken = world.client.take("one", 10)
    same(taken, first)
    world.client.commit("one", topic, after(taken))
    world.client.leave("one")
    world.reference.produce(topic, second)
    world.client.join("two", group=group, topic=topic, protocol=protocol)
    same(world.client.take("two", 10), second)
    world.client.leave("two")


def rebalance(world: World, protocol: str = "classic") -> None:
    topic, group, client = world.topic("rebalance", partitions=4), world.fresh("group"), world.client

    def shared(*members: str) -> bool:
        """Everybody has some, nobody has what another has, all is given away."""
        owned = [client.assigned(member) for member in members]
        return all(owned) and sorted(p for each in owned for p in each) == [0, 1, 2, 3]

    client.join("one", group=group, topic=topic, protocol=protocol)
    world.until(lambda: shared("one"), "the only member has all partitions", 40)
    client.join("two", group=group, topic=topic, protocol=protocol)
    world.until(lambda: shared("one", "two"), "two members share the partitions", 40)
    for partition in range(4):
        world.reference.produce(topic, [Record(key=b"p", value=b"%d" % partition)], partition=partition)
    counts = {member: len(client.assigned(member)) for member in ("one", "two")}
    got = [record for member, count in counts.items() for record in client.take(member, count)]
    assert seen(got) == [b"0", b"1", b"2", b"3"], f"the two members read {seen(got)}"
    client.leave("two")
    world.until(lambda: shared("one"), "the member that stayed has all partitions again", 40)
    client.leave("one")


def new_protocol(world: World) -> None:
    group_resume(world, "consumer")
    rebalance(world, "consumer")


def group_admin(world: World) -> None:
    topic, group = world.topic("groups"), world.fresh("group")
    world.reference.produce(topic, world.records(5))
    world.reference.join("ref", group=group, topic=topic)
    world.reference.commit("ref", topic, after(world.reference.take("ref", 5)))
    world.reference.leave("ref")
    assert group in world.client.groups()
    assert world.client.committed(group, topic) == {0: 5}
    world.client.delete_group(group)
    world.until(lambda: group not in world.client.groups(), "the deleted group is gone")


def transaction(world: World) -> None:
    topic, client, kept, dropped = world.topic("txn"), world.client, world.records(5), world.records(5)
    client.open_producer("p", world.fresh("tx"))
    for records, commit in ((kept, True), (dropped, False), (kept, True)):
        client.begin("p")
        client.send("p", topic, records)
        client.end("p", commit=commit)
    client.close_producer("p")
    same(world.reader.read(topic, BEGINNING, 10, committed=True), kept + kept)
    same(world.reader.read(topic, BEGINNING, 15), kept + dropped + kept)
    same(world.reference.read(topic, BEGINNING, 10, committed=True), kept + kept)


def _has_committed(world: World, group: str, topic: str, wanted: dict[int, int]) -> bool:
    told = world.reference.committed(group, topic)
    return {partition: offset for partition, offset in told.items() if offset >= 0} == wanted


def transaction_offsets(world: World) -> None:
    source, target, group, client = world.topic("src"), world.topic("dst"), world.fresh("group"), world.client
    world.reference.produce(source, world.records(4))
    client.join("m", group=group, topic=source)
    taken = client.take("m", 4)
    client.open_producer("p", world.fresh("tx"))
    for commit in (False, True):
        client.begin("p")
        client.send("p", target, taken)
        client.send_offsets("p", "m", group, source, after(taken))
        client.end("p", commit=commit)
        wanted = {0: 4} if commit else {}
        # The markers are written after the answer to the client, so the offsets become visible a moment later.
        world.until(partial(_has_committed, world, group, source, wanted), f"committed offsets are {wanted}")
    client.close_producer("p")
    client.leave("m")
    same(world.reference.read(target, BEGINNING, 4, committed=True), taken)


def _is_fenced(client: Client, topic: str, records: Sequence[Record]) -> bool:
    """The old producer is told: by the write, or, where the client fails that in words of its own, by the commit."""
    told = "the write was taken"
    try:
        client.send("old", topic, records)
    except Fenced:
        return True
    except ClientError as refused:
        told = str(refused)
    try:
        client.end("old", commit=True)
    except Fenced:
        return True
    except ClientError as refused:
        raise AssertionError(f"refused, but not as fenced: {told}; {refused}") from refused
    return False


def fencing(world: World) -> None:
    topic, name, client = world.topic("fence"), world.fresh("tx"), world.client
    client.open_producer("old", name)
    client.begin("old")
    client.send("old", topic, world.records(2))
    client.open_producer("new", name)
    assert _is_fenced(client, topic, world.records(1)), "the old producer could still commit"
    # Some take this for an error that one recovers from (KIP-360), and would fence the new one in a moment.
    client.close_producer("old")
    kept = world.records(3)
    client.begin("new")
    client.send("new", topic, kept)
    client.end("new", commit=True)
    client.close_producer("new")
    same(world.reference.read(topic, BEGINNING, 3, committed=True), kept)


def delete(world: World) -> None:
    topic = world.topic("delete")
    world.client.delete_topic(topic)
    world.until(lambda: topic not in world.reference.list_topics(), "the deleted topic is gone")


def grow(world: World) -> None:
    topic = world.topic("grow")
    world.client.grow_topic(topic, 5)
    world.until(lambda: world.reference.partitions_of(topic) == 5, "the topic has 5 partitions")
    world.reference.produce(topic, world.records(2), partition=4)
    world.until(lambda: world.reference.offset_of(topic, LATEST, partition=4) == 2, "the new partition holds records")


def configs(world: World) -> None:
    topic = world.topic("configs")
    world.client.set_config(topic, "retention.ms", "123456")
    world.until(lambda: world.client.get_config(topic, "retention.ms") == "123456", "retention.ms is 123456")


@dataclass(slots=True, frozen=True)
class Scenario:
    name: str
    run: Callable[[World], None]
    keys: frozenset[int]
    abilities: frozenset[str] = frozenset()
    reads: bool = False
    """The client must read by itself, the reference does not count."""


def _scenario(
    name: str, run: Callable[[World], None], keys: frozenset[int], *abilities: str, reads: bool = False
) -> Scenario:
    return Scenario(name, run, keys, frozenset(abilities), reads)


SCENARIOS = [
    _scenario("create topic", create, frozenset({METADATA, CREATE_TOPICS})),
    _scenario("create twice", create_twice, frozenset({METADATA, CREATE_TOPICS})),
    _scenario("describe topic", describe, frozenset({METADATA, CREATE_TOPICS})),
    _scenario("list topics", listing, frozenset({METADATA, CREATE_TOPICS})),
    _scenario("auto-create", auto_create, DATA, "auto-create"),
    *(_scenario(f"produce {codec}", produce_with(codec), DATA, f"codec-{codec}") for codec in CODECS),
    _scenario("exchange", exchange, DATA),
    _scenario("nulls", nulls, DATA, "nulls"),
    _scenario("headers", headers, DATA, "headers"),
    _scenario("1 MB record", large, DATA),
    _scenario("from offset", from_offset, DATA, reads=True),
    _scenario("from timestamp", from_timestamp, DATA, reads=True),
    _scenario("look up offsets", offsets, DATA),
    _scenario("idempotent", idempotent, DATA | {INIT_PRODUCER}, "idempotent"),
    _scenario("group resume", group_resume, GROUP),
    _scenario("rebalance", rebalance, GROUP),
    _scenario("new group protocol", new_protocol, GROUP | {CONSUMER_HEARTBEAT}, "new-protocol"),
    _scenario("group admin", group_admin, GROUP | {LIST_GROUPS, DESCRIBE_GROUPS, DELETE_GROUPS}),
    _scenario("transaction", transaction, TRANSACTION),
    _scenario("transaction offsets", transaction_offsets, TRANSACTION | GROUP | {ADD_OFFSETS, TXN_OFFSETS}),
    _scenario("fencing", fencing, TRANSACTION),
    _scenario("delete topic", delete, frozenset({METADATA, CREATE_TOPICS, DELETE_TOPICS})),
    _scenario("add partitions", grow, DATA | {CREATE_PARTITIONS}),
    _scenario("alter config", configs, frozenset({METADATA, CREATE_TOPICS, DESCRIBE_CONFIGS, ALTER_CONFIGS})),
]
