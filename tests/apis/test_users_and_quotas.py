"""SCRAM credentials and client quotas: kept, shown, refused in Kafka's words; and quotas hold."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from broker_lite.broker.quotas import Meter
from broker_lite.clock import ManualClock
from broker_lite.config.start import Durability, TopicAtStart
from broker_lite.errors import ErrorCode
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.security.scram import ScramMechanism, password_fits, salted_password
from broker_lite.wire.messages import k48_describe_client_quotas as k48
from broker_lite.wire.messages import k49_alter_client_quotas as k49
from broker_lite.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from broker_lite.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from broker_lite.wire.messages.k50_describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from broker_lite.wire.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tests.support.talk import NOW, Talk, talking

SHA_256, SHA_512 = 1, 2
Told = list[tuple[str, int, str | None]]
Names = dict[str, str | None]


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path) as talk:
        yield talk


# ---- users


def upsert(
    name: str, mechanism: int = SHA_256, iterations: int = 4096, password: str = "p"
) -> ScramCredentialUpsertion:
    salted = salted_password(ScramMechanism.SHA_256, password, b"salt", iterations)
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted
    )


def remove(name: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


async def alter_users(talk: Talk, *wishes: ScramCredentialUpsertion | ScramCredentialDeletion) -> Told:
    request = AlterUserScramCredentialsRequest(
        deletions=[wish for wish in wishes if isinstance(wish, ScramCredentialDeletion)],
        upsertions=[wish for wish in wishes if isinstance(wish, ScramCredentialUpsertion)],
    )
    response = await talk.ask(request, 0, AlterUserScramCredentialsResponse)
    return [(one.user, one.error_code, one.error_message) for one in response.results]


async def users(talk: Talk, *names: str) -> list[tuple[str, int, list[tuple[int, int]]]]:
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names] or None)
    response = await talk.ask(request, 0, DescribeUserScramCredentialsResponse)
    return [
        (one.user, one.error_code, [(info.mechanism, info.iterations) for info in one.credential_infos])
        for one in response.results
    ]


async def test_a_user_is_kept_over_a_restart_and_only_as_a_hash(tmp_path: Path) -> None:
    async with talking(tmp_path, durability=Durability.OS) as talk:
        assert await alter_users(talk, upsert("alice", password="open sesame")) == [("alice", 0, None)]
        assert await alter_users(talk, upsert("alice", SHA_512, 8192)) == [("alice", 0, None)]
    for file in tmp_path.rglob("*.log"):
        assert b"open sesame" not in file.read_bytes()
    async with talking(tmp_path, durability=Durability.OS) as talk:
        assert await users(talk) == [("alice", 0, [(SHA_256, 4096), (SHA_512, 8192)])]
        kept = talk.broker.users.scram(ScramMechanism.SHA_256, "alice")
        assert kept is not None
        assert password_fits(ScramMechanism.SHA_256, "open sesame", kept)
        assert await alter_users(talk, remove("alice", SHA_512)) == [("alice", 0, None)]
        assert await users(talk, "alice") == [("alice", 0, [(SHA_256, 4096)])]


async def test_wrong_wishes_for_users_are_refused_in_kafkas_words(talk: Talk) -> None:
    twice = "A user credential cannot be altered twice in the same request"
    missing = "Attempt to delete a user credential that does not exist"
    assert await alter_users(talk, upsert("b", 9)) == [("b", 33, "Unknown SCRAM mechanism")]
    assert await alter_users(talk, upsert("b", iterations=100)) == [("b", 93, "Too few iterations")]
    assert await alter_users(talk, upsert("b", iterations=20000)) == [("b", 93, "Too many iterations")]
    assert await alter_users(talk, upsert("")) == [("", 93, "Username must not be empty")]
    assert await alter_users(talk, remove("b")) == [("b", 91, missing)]
    assert await alter_users(talk, upsert("b"), upsert("b", SHA_512)) == [("b", 92, twice)]
    assert await alter_users(talk, upsert("b"), remove("b")) == [("b", 91, missing)]
    assert await alter_users(talk, upsert("b"), upsert("b"), upsert("b", 9)) == [("b", 92, twice)]
    assert await alter_users(talk, upsert("c"), upsert("d", 9)) == [
        ("c", 0, None),
        ("d", 33, "Unknown SCRAM mechanism"),
    ]
    assert await users(talk, "b", "c", "c") == [
        ("b", ErrorCode.RESOURCE_NOT_FOUND, []),
        ("c", ErrorCode.DUPLICATE_RESOURCE, []),
    ]
    assert await alter_users(talk, remove("c"), upsert("c")) == [("c", 92, twice)]
    assert await users(talk, "c") == [("c", 0, [(SHA_256, 4096)])]


# ---- quotas


async def alter_quota(
    talk: Talk, names: Names, limits: dict[str, float | None], *, only: bool = False
) -> tuple[int, str | None]:
    entry = k49.EntryData(
        entity=[k49.EntityData(entity_type=kind, entity_name=name) for kind, name in names.items()],
        ops=[k49.OpData(key=key, value=limit or 0.0, remove=limit is None) for key, limit in limits.items()],
    )
    request = k49.AlterClientQuotasRequest(entries=[entry], validate_only=only)
    (told,) = (await talk.ask(request, 1, k49.AlterClientQuotasResponse)).entries
    return told.error_code, told.error_message


async def quotas(
    talk: Talk, *components: tuple[str, int, str | None], strict: bool = False
) -> list[tuple[Names, dict[str, float]]] | tuple[int, str | None]:
    wanted = [k48.ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    request = k48.DescribeClientQuotasRequest(components=wanted, strict=strict)
    response = await talk.ask(request, 1, k48.DescribeClientQuotasResponse)
    if response.entries is None:
        return response.error_code, response.error_message
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in response.entries
    ]


async def test_limits_are_kept_and_found_by_filter(tmp_path: Path) -> None:
    async with talking(tmp_path, durability=Durability.OS) as talk:
        assert await alter_quota(talk, {"user": "bob"}, {"producer_byte_rate": 1000.0}) == (0, None)
        assert await alter_quota(talk, {"user": "bob"}, {"consumer_byte_rate": 9.0}) == (0, None)
        assert await alter_quota(talk, {"user": None}, {"request_percentage": 12.5}) == (0, None)
        assert await alter_quota(talk, {"user": "bob", "client-id": "c"}, {"producer_byte_rate": 7.0}) == (0, None)
        assert await alter_quota(talk, {"ip": "127.0.0.1"}, {"connection_creation_rate": 5.0}) == (0, None)
        assert await alter_quota(talk, {"user": "eve"}, {"producer_byte_rate": 1.0}, only=True) == (0, None)
    bob = ({"user": "bob"}, {"producer_byte_rate": 1000.0, "consumer_byte_rate": 9.0})
    both = ({"client-id": "c", "user": "bob"}, {"producer_byte_rate": 7.0})
    default = ({"user": None}, {"request_percentage": 12.5})
    async with talking(tmp_path, durability=Durability.OS) as talk:
        assert await quotas(talk, ("user", 0, "bob")) == [bob, both]
        assert await quotas(talk, ("user", 0, "bob"), strict=True) == [bob]
        assert await quotas(talk, ("user", 1, None)) == [default]
        assert await quotas(talk, ("user", 2, None), strict=True) == [bob, default]
        assert await quotas(talk, ("user", 2, None), ("client-id", 2, None)) == [both]
        assert len(await quotas(talk)) == 4
        assert await alter_quota(talk, {"user": None}, {"request_percentage": None}) == (0, None)
        assert await quotas(talk, ("user", 1, None)) == []


@pytest.mark.parametrize(
    "order",
    [
        ["consumer_byte_rate", "request_percentage", "producer_byte_rate"],
        ["consumer_byte_rate", "controller_mutation_rate", "producer_byte_rate"],
        ["request_percentage", "producer_byte_rate"],
        ["producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate", "request_percentage"],
    ],
)
async def test_the_limits_of_one_entity_come_in_the_order_in_which_kafka_tells_them(
    talk: Talk, order: list[str]
) -> None:
    await alter_quota(talk, {"user": "bob"}, dict.fromkeys(sorted(order), 5.0))
    found = await quotas(talk, ("user", 0, "bob"))
    assert isinstance(found, list)
    assert [list(limits) for _, limits in found] == [order]


@pytest.mark.parametrize(
    ("names", "limits", "text"),
    [
        ({"user": "b"}, {"nope": 1.0}, "Invalid configuration key nope"),
        ({"user": "b"}, {"producer_byte_rate": 0.0}, "Quota producer_byte_rate must be greater than 0"),
        ({"user": "b"}, {"producer_byte_rate": 1.5}, "producer_byte_rate cannot be a fractional value."),
        ({"user": "b"}, {"producer_byte_rate": 1e30}, "Proposed value for producer_byte_rate is too large for a LONG."),
        ({"user": "b"}, {"connection_creation_rate": 1.0}, "Invalid configuration key connection_creation_rate"),
        ({"ip": "1.2.3.4"}, {"producer_byte_rate": 1.0}, "Invalid configuration key producer_byte_rate"),
        ({"ip": "x y"}, {"connection_creation_rate": 1.0}, "x y is not a valid IP or resolvable host."),
        ({"ip": "1.2.3.4", "user": "b"}, {}, "IP entity shouldnot be combined"),
        ({"bogus": "b"}, {}, "Unhandled client quota entity type: bogus"),
        ({"user": ""}, {}, "Empty user not supported"),
        ({}, {}, "Invalid empty client quota entity"),
    ],
)
async def test_a_wrong_limit_is_refused(talk: Talk, names: Names, limits: dict[str, float | None], text: str) -> None:
    code, why = await alter_quota(talk, names, limits)
    assert code == ErrorCode.INVALID_REQUEST
    assert text in (why or "")


async def test_a_wrong_filter_is_refused(talk: Talk) -> None:
    assert await quotas(talk, ("bogus", 2, None)) == (35, "Unsupported entity type bogus")
    assert await quotas(talk, ("user", 9, None)) == (42, "Unknown match type 9")
    assert (await quotas(talk, ("user", 0, "a"), ("user", 0, "b")))[0] == 42
    assert (await quotas(talk, ("user", 0, None)))[0] == 42
    assert (await quotas(talk, ("ip", 2, None), ("user", 2, None)))[0] == 42


async def test_the_most_specific_limit_counts(talk: Talk) -> None:
    find = talk.broker.quotas.limit
    for names, limit in (
        ({"client-id": None}, 1.0),
        ({"client-id": "c"}, 2.0),
        ({"user": None}, 3.0),
        ({"user": "u"}, 4.0),
        ({"user": "u", "client-id": None}, 5.0),
        ({"user": "u", "client-id": "c"}, 6.0),
    ):
        await alter_quota(talk, dict(names), {"producer_byte_rate": limit})
        found = find("producer_byte_rate", "u", "c")
        assert found is not None
        assert found[0] == limit
    other = find("producer_byte_rate", "v", "c")
    assert other == (3.0, (("user", "v"),))


def test_a_meter_forgives_a_burst_and_asks_for_silence_above_it() -> None:
    meter = Meter()
    meter.add(1000, 0.0)
    assert meter.wait(100, 0.0) == 0
    meter.add(500, 0.5)
    assert meter.wait(100, 0.5) == pytest.approx(5.0)
    assert meter.wait(100, 10.5) == pytest.approx(4.5)
    assert meter.wait(100, 11.0) == 0


# ---- enforced


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
async def limited(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Talk]:
    async with talking(tmp_path, clock, topics=[TopicAtStart("t")]) as talk:
        yield talk


async def produce(talk: Talk, size: int) -> int:
    """The time that the answer tells the producer to wait."""
    batch = build_batch([NewRecord(key=None, value=b"x" * size)], timestamp=NOW)
    part = PartitionProduceData(index=0, records=memoryview(batch))
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[part])])
    return (await talk.ask(request, 9, ProduceResponse)).throttle_time_ms


async def test_a_producer_above_its_rate_is_told_to_wait_and_not_heard_meanwhile(
    limited: Talk, clock: ManualClock
) -> None:
    await alter_quota(limited, {"client-id": "test"}, {"producer_byte_rate": 1000.0})
    assert await produce(limited, 5000) == 0
    owed = await produce(limited, 10000)
    assert 5000 < owed < 6000
    with anyio.move_on_after(0.05) as patience:
        await limited.fetch("t", 0)
    assert patience.cancelled_caught
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(limited.fetch, "t", 0)
        await anyio.wait_all_tasks_blocked()
        clock.advance(owed / 1000 + 0.001)


async def test_others_are_not_held_up(limited: Talk) -> None:
    await alter_quota(limited, {"client-id": "test"}, {"producer_byte_rate": 10.0})
    assert await produce(limited, 5000) > 0
    assert await produce(Talk(limited.broker, "somebody else"), 5000) == 0


async def test_a_fetch_counts_the_bytes_of_its_records(limited: Talk) -> None:
    await alter_quota(limited, {"user": "ANONYMOUS"}, {"consumer_byte_rate": 100.0})
    await produce(limited, 3000)
    response = await limited.fetch("t", 0)
    assert response.throttle_time_ms > 19000
    assert response.responses[0].partitions[0].records


async def test_the_time_that_requests_take_is_limited_too(limited: Talk) -> None:
    await alter_quota(limited, {"user": None}, {"request_percentage": 1e-9})
    assert await produce(limited, 10) > 0


async def test_making_too_many_partitions_is_refused_by_young_versions_and_slowed_down_for_old_ones(
    limited: Talk, clock: ManualClock
) -> None:
    await alter_quota(limited, {"client-id": "test"}, {"controller_mutation_rate": 1.0})

    async def create(name: str, version: int) -> tuple[int, int]:
        topic = CreatableTopic(name=name, num_partitions=15, replication_factor=1, assignments=[], configs=[])
        limited.facts.muted_until = 0.0
        response = await limited.ask(CreateTopicsRequest(topics=[topic]), version, CreateTopicsResponse)
        return response.topics[0].error_code, response.throttle_time_ms

    assert await create("a", 7) == (0, 5000)
    assert await create("b", 7) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 5000)
    code, owed = await create("b", 5)
    assert (code, owed) == (0, 20000)
    clock.advance(11)
    assert (await create("c", 7))[0] == 0


async def test_without_a_limit_nothing_is_measured(limited: Talk) -> None:
    assert await produce(limited, 100_000) == 0
    assert not limited.broker.quotas.active
    await alter_quota(limited, {"user": "x"}, {"producer_byte_rate": 1.0})
    assert limited.broker.quotas.active
    await alter_quota(limited, {"user": "x"}, {"producer_byte_rate": None})
    assert not limited.broker.quotas.active


async def test_an_address_may_connect_only_so_often(tmp_path: Path, clock: ManualClock) -> None:
    async with talking(tmp_path, clock, durability=Durability.OS) as talk:
        too_fast = talk.broker.quotas.too_fast
        assert [too_fast("10.0.0.1") for _ in range(1000)] == [0.0] * 1000
        assert await alter_quota(talk, {"ip": None}, {"connection_creation_rate": 2.0}) == (0, None)
        assert await alter_quota(talk, {"ip": "10.0.0.9"}, {"connection_creation_rate": 1.0}) == (0, None)
        assert not talk.broker.quotas.active
        assert [too_fast("10.0.0.1") for _ in range(20)] == [0.0] * 20  # two a second, over ten seconds
        assert too_fast("10.0.0.1") == pytest.approx(0.5)
        assert too_fast("10.0.0.1") == pytest.approx(0.5), "who was turned away has not come"
        assert too_fast("10.0.0.2") == 0.0
        assert [too_fast("10.0.0.9") for _ in range(11)][-2:] == [0.0, 1.0]
        clock.advance(11)
        assert too_fast("10.0.0.1") == 0.0
    async with talking(tmp_path, clock, durability=Durability.OS) as talk:
        assert [talk.broker.quotas.too_fast("10.0.0.9") for _ in range(11)][-2:] == [0.0, 1.0]
        assert await alter_quota(talk, {"ip": "10.0.0.9"}, {"connection_creation_rate": None}) == (0, None)
        assert [talk.broker.quotas.too_fast("10.0.0.9") for _ in range(11)][-2:] == [0.0, 0.0]
