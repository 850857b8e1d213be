"""Transactions of both generations, said to both brokers: every API at every version, in every state and epoch."""

from __future__ import annotations

from broker_lite.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from broker_lite.wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from broker_lite.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from broker_lite.wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from broker_lite.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.differential.conversations import Conversation
from tests.differential.transacting import SALT, Holder, begin, in_order, writer
from tests.differential.transaction_data import looking, markers, produce
from tests.differential.wire import Wire


def init_producer_id(wire: Wire, both: dict[int, range]) -> None:
    target = writer(wire, "ini")
    for version in both[22]:
        if version > 5:
            continue
        Holder(wire, "").told_init("empty id", version)
        for timeout in (0, -1, 900_001, 900_000, 1):
            Holder(wire, f"it{version}-{timeout}-{SALT}").told_init(f"time-out {timeout}", version, timeout=timeout)
        held = Holder(wire, f"ia{version}-{SALT}")
        held.told_init("fresh", version)
        held.told_init("again", version)
        held.describe("after two")
        if version >= 3:
            _renewals(held, version)
            Holder(wire, f"ib{version}-{SALT}").told_init("unknown id with a producer", version, given=(held.id, 0))
        held.add(target.topic)
        held.told_init("while ongoing", version)
        held.settle()
        held.describe("aborted")
        held.told_init("after the abort", version)
        if version >= 3:
            held.add(target.topic)
            held.told_init("while ongoing, foreign", version, given=(held.id + 7, held.epoch))
            old = held.epoch
            for label, epoch in (("stale", old - 1), ("current", old)):
                held.told_init(f"while ongoing, {label}", version, given=(held.id, epoch))
                held.settle()
                held.describe(f"v{version} fenced by {label}")
                for ending in (4, 5):
                    for commit in (True, False):
                        held.end(f"the fenced one ends {commit}", ending, commit=commit, epoch=old)
                held.told_init("the fenced one comes back", version, given=(held.id, old))
                held.told_init("the fenced one comes back again", version, given=(held.id, old))
                held.describe("after all")
                held.add(target.topic)
                old = held.epoch
        if version >= 4:
            implicit = begin(wire, f"ic{version}")
            target.write("implicit", 12, (implicit.id, implicit.epoch, 0), implicit.name)
            old = implicit.epoch
            implicit.told_init("implicit, while ongoing", version)
            implicit.settle()
            implicit.describe(f"v{version} implicit, fenced")
            for ending in (4, 5):
                for commit in (True, False):
                    implicit.end(f"implicit, the fenced one ends {commit}", ending, commit=commit, epoch=old)
            implicit.told_init("implicit, the fenced one comes back", version, given=(implicit.id, old))
            implicit.describe(f"v{version} implicit, after all")


def _renewals(held: Holder, version: int) -> None:
    old = held.epoch
    held.told_init("current", version, given=(held.id, old))
    held.told_init("lost answer", version, given=(held.id, old))
    held.told_init("lost answer again", version, given=(held.id, old))
    held.told_init("older", version, given=(held.id, old - 1))
    held.told_init("future", version, given=(held.id, held.epoch + 1))
    held.told_init("foreign", version, given=(held.id + 1000, held.epoch))
    held.told_init("half", version, given=(held.id, -1))
    held.told_init("other half", version, given=(-1, held.epoch))
    held.told_init("nobody's", version)
    held.told_init("the one before", version, given=(held.id, held.epoch - 1))
    for target, commit in (("ongoing", True), ("ongoing", False)):
        before = held.epoch
        held.end(f"{target} {commit} without partitions", 5, commit=commit)
        held.init()
        held.told_init(f"after {commit}", version, given=(held.id, before))


def _topics(*names: tuple[str, list[int]]) -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in names]


def add_partitions(wire: Wire, both: dict[int, range]) -> None:
    target = writer(wire, "adp", 2)
    for version in both[24]:
        held = begin(wire, f"ap{version}")
        held.told_init("raise", 4)
        cases = {
            "unknown topic": (held.name, held.id, held.epoch, _topics((target.topic, [0]), ("nope", [0]))),
            "unknown partition": (held.name, held.id, held.epoch, _topics((target.topic, [0, 7]))),
            "unknown id": (f"no{SALT}", held.id, held.epoch, _topics((target.topic, [0]))),
            "empty id": ("", held.id, held.epoch, _topics((target.topic, [0]))),
            "foreign": (held.name, held.id + 1, held.epoch, _topics((target.topic, [0]))),
            "stale": (held.name, held.id, held.epoch - 1, _topics((target.topic, [0]))),
            "future": (held.name, held.id, held.epoch + 1, _topics((target.topic, [0]))),
            "nothing": (held.name, held.id, held.epoch, []),
            "one": (held.name, held.id, held.epoch, _topics((target.topic, [0]))),
            "one again": (held.name, held.id, held.epoch, _topics((target.topic, [0]))),
            "twice in one": (held.name, held.id, held.epoch, _topics((target.topic, [1, 1]))),
            "internal": (held.name, held.id, held.epoch, _topics(("__consumer_offsets", [0]))),
        }
        for verify in (True, False, True) if version >= 4 else (False,):
            for label, (name, producer, epoch, topics) in cases.items():
                if label == "internal" and version >= 4:
                    continue  # brokers may, and whether it exists depends on who was here before
                told = f"{label}{', only asked' if verify else ''}"
                if version < 4:
                    request = AddPartitionsToTxnRequest(
                        v3_and_below_transactional_id=name,
                        v3_and_below_producer_id=producer,
                        v3_and_below_producer_epoch=epoch,
                        v3_and_below_topics=topics,
                    )
                else:
                    one = AddPartitionsToTxnTransaction(
                        transactional_id=name,
                        producer_id=producer,
                        producer_epoch=epoch,
                        verify_only=verify,
                        topics=topics,
                    )
                    request = AddPartitionsToTxnRequest(transactions=[one])
                wire.ask(told, request, version, AddPartitionsToTxnResponse)
                in_order(wire)
                if label in ("nothing", "one", "twice in one"):
                    held.describe(f"v{version} {told}")
        held.end("end", 4, commit=True)
        held.describe("ended")


def add_offsets(wire: Wire, both: dict[int, range]) -> None:
    for version in both[25]:
        held = begin(wire, f"ao{version}")
        held.told_init("raise", 4)
        group = f"aog{version}-{SALT}"
        for label, name, producer, epoch, of in (
            ("unknown id", f"no{SALT}", held.id, held.epoch, group),
            ("empty id", "", held.id, held.epoch, group),
            ("foreign", held.name, held.id + 1, held.epoch, group),
            ("stale", held.name, held.id, held.epoch - 1, group),
            ("future", held.name, held.id, held.epoch + 1, group),
            ("one", held.name, held.id, held.epoch, group),
            ("one again", held.name, held.id, held.epoch, group),
            ("empty group", held.name, held.id, held.epoch, ""),
        ):
            request = AddOffsetsToTxnRequest(
                transactional_id=name, producer_id=producer, producer_epoch=epoch, group_id=of
            )
            wire.ask(label, request, version, AddOffsetsToTxnResponse)
        held.describe(f"v{version}")
        held.end("end", 4, commit=False)


def end_txn(wire: Wire, both: dict[int, range]) -> None:
    target = writer(wire, "end")
    for version in both[26]:
        Holder(wire, "", 5, 0).end("empty id", version, commit=True)
        Holder(wire, f"no{SALT}", 5, 0).end("unknown id", version, commit=True)
        for commit in (True, False):
            held = begin(wire, f"ee{version}{commit}")
            told = "commit" if commit else "abort"
            held.end(f"{told} of nothing", version, commit=commit)
            held.describe(f"v{version} {told} of nothing")
            held.end(f"{told} of nothing, again", version, commit=commit)
            held.describe(f"v{version} {told} of nothing, again")
            held.init()
            held.init()
            held.add(target.topic)
            for label, more in (
                ("foreign", {"producer": held.id + 1}),
                ("stale", {"epoch": held.epoch - 1}),
                ("future", {"epoch": held.epoch + 1}),
            ):
                held.end(f"{told} {label}", version, commit=commit, **more)
            for number in range(3):
                held.end(f"{told} {number}", version, commit=commit)
                held.end(f"{told} {number} opposite", version, commit=not commit)
                held.describe(f"v{version} {told} {number}")
            after = held.end(f"{told} with the next epoch", version, commit=commit, epoch=held.epoch + 1)
            held.end(f"{told} opposite with the next epoch", version, commit=not commit, epoch=held.epoch + 1)
            held.describe(f"v{version} {told} next")
            held.end(f"{told} with the one after", version, commit=commit, epoch=held.epoch + 2)
            held.end(f"{told} with an old one", version, commit=commit, epoch=held.epoch - 1)
            assert after is not None
            # Ended by one generation, retried by the other.
            held.init()
            held.add(target.topic)
            held.end(f"{told} mixed", version, commit=commit)
            held.end(f"{told} mixed, then v5 with an old one, after v{version}", 5, commit=commit, epoch=held.epoch - 1)
            for other in (3, 4, 5):
                held.end(f"{told} mixed, then v{other}, after v{version}", other, commit=commit)
                held.end(
                    f"{told} mixed, then v{other} next, after v{version}", other, commit=commit, epoch=held.epoch + 1
                )
            held.describe(f"v{version} {told} mixed")
            held.told_init("init after", 4, given=(held.id, held.epoch))
            held.told_init("init after, next", 4, given=(held.id, held.epoch + 1))


def _commit(
    held: Holder, group: str, name: str, *, metadata: str | None = "m", partition: int = 0, offset: int = 5
) -> TxnOffsetCommitRequest:
    part = TxnOffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=metadata
    )
    return TxnOffsetCommitRequest(
        transactional_id=held.name,
        group_id=group,
        producer_id=held.id,
        producer_epoch=held.epoch,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=[part])],
    )


def _offsets(wire: Wire, label: str, group: str, name: str) -> None:
    for stable in (True, False):
        topics = OffsetFetchRequestTopics(name=name, partition_indexes=[0, 1])
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=[topics])], require_stable=stable
        )
        wire.ask(f"{label} {stable}", request, 8, OffsetFetchResponse)


def txn_offset_commit(wire: Wire, both: dict[int, range]) -> None:
    target = writer(wire, "toc", 2)
    for version in both[28]:
        held = begin(wire, f"to{version}")
        held.init()
        group = f"tog{version}-{SALT}"
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        wire.ask("find", find, 4, FindCoordinatorResponse, note=False)
        _offsets(wire, "before", group, target.topic)

        def say(label: str, request: TxnOffsetCommitRequest, version: int = version) -> None:
            wire.ask(label, request, version, TxnOffsetCommitResponse)

        for added in (False, True):
            told = "added" if added else "not added"
            if added:
                held.add_group(group)
            stranger = Holder(wire, f"no{SALT}", held.id, held.epoch)
            if version < 5 or not added:  # once it is open, Apache Kafka asks for the producer alone
                say(f"{told}: unknown id", _commit(stranger, group, target.topic))
                say(f"{told}: empty id", _commit(Holder(wire, "", held.id, held.epoch), group, target.topic))
            say(f"{told}: foreign", _commit(Holder(wire, held.name, held.id + 1, held.epoch), group, target.topic))
            say(f"{told}: stale", _commit(Holder(wire, held.name, held.id, held.epoch - 1), group, target.topic))
            say(f"{told}: future", _commit(Holder(wire, held.name, held.id, held.epoch + 1), group, target.topic))
            say(f"{told}: empty group", _commit(held, "", target.topic))
            say(f"{told}: unknown topic", _commit(held, group, "nope"))
            say(f"{told}: unknown partition", _commit(held, group, target.topic, partition=9))
            say(f"{told}: much to say", _commit(held, group, target.topic, metadata="m" * 5000))
            say(f"{told}: negative", _commit(held, group, target.topic, offset=-5))
            if version >= 3:
                request = _commit(held, group, target.topic)
                request.generation_id, request.member_id = 3, "nobody"
                say(f"{told}: generation of nobody", request)
                request.generation_id, request.member_id = -1, "nobody"
                say(f"{told}: nobody", request)
                request.generation_id, request.member_id, request.group_instance_id = -1, "", "i"
                say(f"{told}: instance", request)
            say(f"{told}: plain", _commit(held, group, target.topic))
            say(f"{told}: silent", _commit(held, group, target.topic, metadata=None, offset=6))
            held.describe(f"v{version} {told}")
            _offsets(wire, f"v{version} {told}: pending", group, target.topic)
        held.end("end", 4, commit=True)
        _offsets(wire, f"v{version} committed", group, target.topic)
        say("after the end", _commit(held, group, target.topic, offset=9))
        held.init()
        held.add_group(group)
        say("to be aborted", _commit(held, group, target.topic, offset=77))
        _offsets(wire, f"v{version} pending again", group, target.topic)
        held.end("abort", 4, commit=False)
        _offsets(wire, f"v{version} aborted", group, target.topic)


def the_last_epoch(wire: Wire, both: dict[int, range]) -> None:
    """No client gets here in a lifetime, so only what can be asked at once: an id that nobody knows."""
    for version in both[26]:
        for epoch in (32766, 32767, -1):
            Holder(wire, f"nl{SALT}", 77, epoch).end(f"epoch {epoch}", version, commit=False)


TRANSACTIONS: list[Conversation] = [
    init_producer_id,
    add_partitions,
    add_offsets,
    end_txn,
    txn_offset_commit,
    produce,
    markers,
    looking,
    the_last_epoch,
]
