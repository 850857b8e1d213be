"""What transactions leave in partitions, said to both brokers: batches, markers, and who looks at them."""

from __future__ import annotations

from broker_lite.wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from broker_lite.wire.messages.k61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from broker_lite.wire.messages.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from broker_lite.wire.messages.k66_list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tests.differential.transacting import SALT, Writer, begin, in_order, writer
from tests.differential.wire import Wire


def produce(wire: Wire, both: dict[int, range]) -> None:
    for version in both[0]:
        if version < 3:
            continue
        target = writer(wire, f"tp{version}", 2)
        held = begin(wire, f"pr{version}")
        held.init()
        current = (held.id, held.epoch, 0)
        target.write("not added, unknown id", version, current, f"no{SALT}")
        target.write("not added, empty id", version, current, "")
        target.write("not added, no id", version, current, None)
        target.write("not added, foreign", version, (held.id + 1, held.epoch, 0), held.name)
        target.write("not added, stale", version, (held.id, held.epoch - 1, 0), held.name)
        target.write("not added, future", version, (held.id, held.epoch + 1, 0), held.name)
        target.write(
            "not added, id without a transaction", version, current, held.name, transactional=False, partition=1
        )
        target.write("not added, no producer", version, (-1, -1, -1), held.name)
        held.describe(f"v{version} refused")
        target.write("not added", version, current, held.name)
        held.describe(f"v{version} not added")
        if version < 12:
            held.add(target.topic)
        target.write("added", version, current, held.name)
        target.write("added, again", version, current, held.name)
        target.write("added, gap", version, (held.id, held.epoch, 5), held.name)
        target.write("added, unknown id", version, (held.id, held.epoch, 1), f"no{SALT}")
        target.write("added, plain", version, (held.id, held.epoch, 1), held.name, transactional=False)
        target.write("added, stale", version, (held.id, held.epoch - 1, 1), held.name)
        target.write("added, somebody else", version, (-1, -1, -1), None, transactional=False)
        target.read(f"v{version} open")
        target.producers(f"v{version} open")
        ending = 5 if version >= 12 else 4
        told = held.end(f"abort for v{version}", ending, commit=False)
        target.read(f"v{version} aborted")
        target.producers(f"v{version} aborted")
        target.write("after the end", version, (held.id, held.epoch, 1), held.name)
        target.write("after the end, repeated", version, current, held.name)
        if ending == 5:
            held.id, held.epoch = told.producer_id, told.producer_epoch
            target.write("next epoch, sequence 1", version, (held.id, held.epoch, 1), held.name)
            target.write("next epoch, sequence 0", version, (held.id, held.epoch, 0), held.name)
        else:
            held.add(target.topic)
            target.write("next", version, (held.id, held.epoch, 1), held.name)
        held.end(f"commit for v{version}", ending, commit=True)
        target.read(f"v{version} committed")
        target.producers(f"v{version} committed")
        last = begin(wire, f"pf{version}")
        if version < 12:
            last.add(target.topic)
        target.write("open", version, (last.id, last.epoch, 0), last.name)
        target.write("open, future", version, (last.id, last.epoch + 1, 0), last.name)


def markers(wire: Wire, both: dict[int, range]) -> None:
    for version in both[27]:
        for generation in (0, 1, 2) if version >= 2 else (0,):
            target = writer(wire, f"wm{version}{generation}")
            held = begin(wire, f"wm{version}{generation}")
            held.init()

            def say(
                label: str,
                producer: int,
                epoch: int,
                coordinator: int,
                commit: bool = False,
                names: tuple[str, ...] = (target.topic,),
                version: int = version,
                generation: int = generation,
            ) -> None:
                marker = WritableTxnMarker(
                    producer_id=producer,
                    producer_epoch=epoch,
                    transaction_result=commit,
                    topics=[WritableTxnMarkerTopic(name=name, partition_indexes=[0]) for name in names],
                    coordinator_epoch=coordinator,
                    transaction_version=generation,
                )
                request = WriteTxnMarkersRequest(markers=[marker])
                wire.ask(f"{label} g{generation}", request, version, WriteTxnMarkersResponse)
                in_order(wire)

            def look(label: str, target: Writer = target) -> None:
                target.read(label)
                target.producers(label)

            told = f"v{version} g{generation}"
            say("nobody's", held.id, held.epoch, 0)
            look(f"{told} nobody's")
            held.add(target.topic)
            target.write("open", 9, (held.id, held.epoch, 0), held.name)
            say("stale", held.id, held.epoch - 1, 0)
            say("unknown topic", held.id, held.epoch + 1, 0, names=("nope",))
            say("low coordinator", held.id, held.epoch, -1)
            say("same epoch", held.id, held.epoch, 0)
            look(f"{told} same epoch")
            say("same epoch again", held.id, held.epoch, 0)
            say("higher coordinator", held.id, held.epoch, 3)
            say("lower coordinator", held.id, held.epoch, 2)
            target.write("reopened", 9, (held.id, held.epoch, 1), held.name)
            say("next epoch, both", held.id, held.epoch + 1, 3, commit=True, names=(target.topic, "nope"))
            say("next epoch again", held.id, held.epoch + 1, 3, commit=True)
            look(f"{told} next epoch")
            target.write("fenced", 9, (held.id, held.epoch, 2), held.name)
    for version in both[27]:
        wire.ask("nothing", WriteTxnMarkersRequest(markers=[]), version, WriteTxnMarkersResponse)


def looking(wire: Wire, both: dict[int, range]) -> None:
    target = writer(wire, "lk", 2)
    for names in (["nope"], [""], [f"no{SALT}", f"no{SALT}"], []):
        wire.ask(f"{names}"[:6], DescribeTransactionsRequest(transactional_ids=names), 0, DescribeTransactionsResponse)
    for name, indexes in ((target.topic, [0, 1]), (target.topic, [7]), (target.topic, []), ("nope", [0]), ("", [0])):
        producers = DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=indexes)])
        wire.ask(f"{name[:2]} {indexes}", producers, 0, DescribeProducersResponse)
    empty, ongoing, done = (begin(wire, f"lt-{kind}") for kind in ("empty", "ongoing", "done"))
    ongoing.add(target.topic)
    done.add(target.topic)
    done.end("end", 4, commit=True)
    ours = [empty.id, ongoing.id, done.id]
    for version in both[66]:
        for states in (
            [],
            ["Empty"],
            ["Ongoing", "Empty"],
            ["CompleteCommit"],
            ["Dead"],
            ["empty"],
            ["Nonsense"],
            [""],
        ):
            for ids in ([empty.id], [ongoing.id], [done.id], [10**12], [ongoing.id, ongoing.id]):
                request = ListTransactionsRequest(state_filters=states, producer_id_filters=ids)
                wire.ask(f"{states} {len(ids)}", request, version, ListTransactionsResponse)
        for duration in (-2, -1, 0, 3_600_000) if version >= 1 else ():
            for one in ours:
                request = ListTransactionsRequest(state_filters=[], producer_id_filters=[one], duration_filter=duration)
                wire.ask(f"duration {duration}", request, version, ListTransactionsResponse)
        patterns = (
            None,
            "",
            f"lt-empty-{SALT}",
            "lt-empty",
            f"lt-[de].*-{SALT}",
            "(",
            "(?!x)",
            ".*done.*",
            "a{1,2000}",
        )
        for pattern in patterns if version >= 2 else ():
            for one in ours:
                request = ListTransactionsRequest(
                    state_filters=[], producer_id_filters=[one], transactional_id_pattern=pattern
                )
                wire.ask(f"pattern {str(pattern)[:5]}", request, version, ListTransactionsResponse)
