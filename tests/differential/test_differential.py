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
from tests.differential.administration import ADMINISTRATION
from tests.differential.consumer_groups import CONSUMER_GROUPS
from tests.differential.conversations import DATA, Conversation, warm_up
from tests.differential.groups import GROUPS
from tests.differential.limits import LIMITS
from tests.differential.transactions import TRANSACTIONS
from tests.differential.wire import Wire, differences

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]
KNOWN = Path(__file__).with_name("known.txt")
MOST_KNOWN = 12
"""Entries may go, none may come: whoever takes one out lowers this."""
LEAST_COMPARED = 5000
ONLY_TOLD = {(0, 0), (0, 1), (0, 2)}
"""Kafka names these versions of Produce, for clients that compress only where they see them, and serves none."""
ALL = (*DATA, *GROUPS, *CONSUMER_GROUPS, *TRANSACTIONS, *ADMINISTRATION, *LIMITS)
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    settings = [word for key, value in AUTHORIZER.items() for word in ("--set", f"{key}={value}")]
    ours = BrokerLite(tmp_path_factory.mktemp("ours"), "--set", "num.partitions=1", "--durability", "memory", *settings)
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), AUTHORIZER) as theirs:
        ours.start()
        try:
            yield ours.bootstrap, theirs.bootstrap
        finally:
            ours.stop()


def in_common(wires: list[Wire]) -> dict[int, range]:
    """Key -> the versions that both serve."""
    ours, theirs = (wire.offered for wire in wires)
    return {
        key: range(max(ours[key][0], theirs[key][0]), min(ours[key][-1], theirs[key][-1]) + 1)
        for key in ours.keys() & theirs.keys()
    }


def hold(conversation: Conversation, bootstraps: tuple[str, str]) -> tuple[set[tuple[int, int]], int, list[str]]:
    """Which keys were asked at which versions, how many answers were compared, and the lines in which they differ."""
    wires = [Wire(bootstrap) for bootstrap in bootstraps]
    shared = in_common(wires)
    for wire in wires:
        conversation(wire, shared)
        wire.close()
    assert [label for label, _ in wires[0].seen] == [label for label, _ in wires[1].seen]
    lines = []
    for (label, mine), (_, other) in zip(wires[0].seen, wires[1].seen, strict=True):
        lines += [f"{label} | {difference}" for difference in differences(mine, other)]
    return wires[0].asked, len(wires[0].seen), lines


def known() -> list[re.Pattern[str]]:
    lines = [line for line in KNOWN.read_text().splitlines() if line and not line.startswith("#")]
    return [re.compile(re.split(r"\s{2,}", line)[0]) for line in lines]


def test_answers_differ_only_where_we_say_why(both: tuple[str, str]) -> None:
    for bootstrap in both:
        warm_up(Wire(bootstrap))
    compared, unexplained, used, asked = 0, [], set(), set[tuple[int, int]]()
    for conversation in ALL:
        questions, count, lines = hold(conversation, both)
        asked |= questions
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
    assert compared >= LEAST_COMPARED
    shared = in_common([Wire(bootstrap) for bootstrap in both])
    unasked = sorted({(key, version) for key, versions in shared.items() for version in versions} - asked - ONLY_TOLD)
    assert not unasked, "both serve these, and nobody asked"


def test_the_list_of_differences_only_shrinks() -> None:
    assert len(known()) <= MOST_KNOWN
