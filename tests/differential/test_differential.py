"""Apache Kafka and ours are asked the same; answers differ only where a line of known.txt says why.

pytest tests/differential -s            prints what differs, grouped
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peer import ApacheKafka, BrokerLite
from tests.differential.consumer_groups import CONSUMER_GROUPS
from tests.differential.conversations import DATA, Conversation, warm_up
from tests.differential.groups import GROUPS
from tests.differential.transactions import TRANSACTIONS
from tests.differential.wire import Wire, differences

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]
KNOWN = Path(__file__).with_name("known.txt")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    ours = BrokerLite(tmp_path_factory.mktemp("ours"), "--set", "num.partitions=1", "--durability", "memory")
    with ApacheKafka(tmp_path_factory.mktemp("kafka")) as theirs:
        ours.start()
        try:
            yield ours.bootstrap, theirs.bootstrap
        finally:
            ours.stop()


def hold(conversation: Conversation, bootstraps: tuple[str, str]) -> tuple[int, list[str]]:
    """How many answers were compared, and the lines in which they differ."""
    wires = [Wire(bootstrap) for bootstrap in bootstraps]
    ours, theirs = (wire.offered for wire in wires)
    shared = {
        key: range(max(ours[key][0], theirs[key][0]), min(ours[key][-1], theirs[key][-1]) + 1)
        for key in ours.keys() & theirs.keys()
    }
    for wire in wires:
        conversation(wire, shared)
        wire.close()
    assert [label for label, _ in wires[0].seen] == [label for label, _ in wires[1].seen]
    lines = []
    for (label, mine), (_, other) in zip(wires[0].seen, wires[1].seen, strict=True):
        lines += [f"{label} | {difference}" for difference in differences(mine, other)]
    return len(wires[0].seen), lines


def known() -> list[re.Pattern[str]]:
    lines = [line for line in KNOWN.read_text().splitlines() if line and not line.startswith("#")]
    return [re.compile(re.split(r"\s{2,}", line)[0]) for line in lines]


def test_answers_differ_only_where_we_say_why(both: tuple[str, str]) -> None:
    for bootstrap in both:
        warm_up(Wire(bootstrap))
    compared, unexplained, used = 0, [], set()
    for conversation in (*DATA, *GROUPS, *CONSUMER_GROUPS, *TRANSACTIONS):
        count, lines = hold(conversation, both)
        compared += count
        for line in lines:
            reason = next((pattern for pattern in known() if pattern.fullmatch(line)), None)
            if reason is None:
                unexplained.append(line)
            else:
                used.add(reason.pattern)
        print(f"{conversation.__name__}: {count} answers, {len(lines)} differences")
    grouped = Counter(re.sub(r" v\d+ .*\|", " |", re.sub(r"\[\d+\]", "[]", line)) for line in unexplained)
    for line, times in sorted(grouped.items()):
        print(f"  {times:>3} x {line}")
    assert not unexplained, f"{len(unexplained)} of {compared} answers differ without a reason"
    assert used == {pattern.pattern for pattern in known()}, "an entry of known.txt matches nothing any more"
    assert compared >= 5000
