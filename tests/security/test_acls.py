"""ACLs as a table of questions and answers; the answers are those of Kafka's StandardAuthorizer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_lite.security.acls import (
    AccessRules,
    Allowed,
    Binding,
    Filter,
    Operation,
    Pattern,
    Permission,
    Resource,
    read_super_users,
)

READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
ALLOW, DENY = Permission.ALLOW, Permission.DENY


def binding(
    name: str = "orders",
    operation: Operation = READ,
    *,
    who: str = "User:alice",
    host: str = "*",
    permission: Permission = ALLOW,
    prefixed: bool = False,
    resource: Resource = Resource.TOPIC,
) -> Binding:
    pattern = Pattern.PREFIXED if prefixed else Pattern.LITERAL
    return Binding(resource, name, pattern, who, host, operation, permission)


def rules(*bindings: Binding, **more: object) -> AccessRules:
    made = AccessRules(**more)  # type: ignore[arg-type]
    for one in bindings:
        made.add(one)
    return made


def may(made: AccessRules, operation: Operation = READ, name: str = "orders", who: str = "User:alice") -> bool:
    return made.allows(who, "10.0.0.1", operation, Resource.TOPIC, name)


def test_nobody_may_do_what_nothing_allows() -> None:
    assert not may(rules())
    assert not may(rules(binding(who="User:bob")))
    assert not may(rules(binding(resource=Resource.GROUP)))
    assert not may(rules(binding(operation=WRITE)))
    assert not may(rules(binding(host="10.0.0.2")))


@pytest.mark.parametrize(
    "one",
    [
        binding(),
        binding("*"),
        binding("ord", prefixed=True),
        binding("orders", prefixed=True),
        binding(who="User:*"),
        binding(host="10.0.0.1"),
        binding(operation=ALL),
    ],
    ids=str,
)
def test_what_allows_reading(one: Binding) -> None:
    assert may(rules(one))


@pytest.mark.parametrize("one", [binding("order"), binding("orders2", prefixed=True), binding("Orders"), binding("*s")])
def test_a_name_is_a_name_and_a_prefix_a_prefix(one: Binding) -> None:
    assert not may(rules(one))


def test_a_denial_counts_before_any_allowance() -> None:
    allowed = [binding(), binding("*", ALL), binding("o", prefixed=True)]
    for denial in (binding(permission=DENY), binding("*", ALL, permission=DENY, who="User:*")):
        assert not may(rules(*allowed, denial))
    assert may(rules(*allowed, binding(permission=DENY, host="10.0.0.9"), binding("orders", WRITE, permission=DENY)))


@pytest.mark.parametrize("operation", [READ, WRITE, Operation.DELETE, Operation.ALTER])
def test_who_may_do_something_may_look(operation: Operation) -> None:
    assert may(rules(binding(operation=operation)), DESCRIBE)
    assert may(rules(binding(operation=operation, permission=DENY), binding(operation=DESCRIBE)), DESCRIBE)


def test_who_may_change_configurations_may_see_them() -> None:
    assert may(rules(binding(operation=Operation.ALTER_CONFIGS)), Operation.DESCRIBE_CONFIGS)
    assert not may(rules(binding(operation=DESCRIBE)), READ)


@pytest.mark.parametrize("host", ["::1", "0:0:0:0:0:0:0:1", "0000:0000:0000:0000:0000:0000:0000:0001", "0:0::1"])
def test_an_address_is_the_same_however_it_is_spelled(host: str) -> None:
    """Kafka's bindings have IPv6 addresses in full; as text a denial would never have counted."""
    made = rules(binding(), binding(host=host, permission=DENY))
    assert not made.allows("User:alice", "::1", READ, Resource.TOPIC, "orders")
    assert made.allows("User:alice", "::2", READ, Resource.TOPIC, "orders")
    assert made.allows("User:alice", "10.0.0.1", READ, Resource.TOPIC, "orders")


def test_a_host_that_is_no_address_is_nobodys() -> None:
    made = rules(binding(host="localhost"), binding(host="::1%lo"), binding(host="127.0.0.1"))
    assert not made.allows("User:alice", "::1", READ, Resource.TOPIC, "orders")


def test_names_that_look_alike_are_others() -> None:
    made = rules(binding("caf\u00e9"), binding("o", prefixed=True, permission=DENY))
    assert may(made, name="caf\u00e9")
    for other in ("cafe\u0301", "CAF\u00c9", "cafe", "caf\u00e9 ", "caf\u00e9\u200b"):
        assert not may(made, name=other)
    made = rules(binding("*"), binding("*", prefixed=True, permission=DENY))
    assert may(made, name="orders"), "a prefix of one star is a star, not everything"
    assert not may(made, name="*orders")
    for who in ("user:alice", "User:Alice", "User:alice ", "Group:alice", "alice"):
        assert not may(rules(binding()), who=who)


def test_long_names_are_not_remembered() -> None:
    made = rules(binding("*"))
    for number in range(10):
        assert may(made, name=f"{number}" + "x" * 600)
    assert made._answers == {}
    kept = Allowed("User:alice", 0)
    kept.remember("x" * 600)
    kept.remember("orders")
    assert kept.names == {"orders"}


def test_super_users_are_not_asked_about() -> None:
    made = rules(binding("*", ALL, who="User:*", permission=DENY), super_users=["User:root"])
    assert may(made, who="User:root")
    assert not may(made)


def test_everyone_may_use_what_no_binding_speaks_of_if_so_configured() -> None:
    made = rules(binding("orders", who="User:bob"), allow_everyone=True)
    assert may(made, name="other")
    assert not may(made)


def test_an_answer_changes_with_the_bindings() -> None:
    made = rules()
    assert not may(made)
    made.add(binding())
    assert may(made)
    made.remove(binding())
    assert not may(made)


def test_whether_there_is_anything_to_write_to() -> None:
    def some(*bindings: Binding, **more: object) -> bool:
        return rules(*bindings, **more).allows_some("User:alice", "h", WRITE, Resource.TOPIC)

    assert not some()
    assert some(binding(operation=WRITE))
    assert some(binding("x", WRITE, prefixed=True))
    assert some(allow_everyone=True)
    assert not some(binding(operation=WRITE), binding("*", WRITE, permission=DENY))
    assert not some(binding(operation=WRITE), binding(operation=WRITE, permission=DENY))
    assert not some(binding(operation=WRITE), binding("ord", WRITE, permission=DENY, prefixed=True))
    assert some(binding(operation=WRITE), binding("orders2", WRITE, permission=DENY))


def test_filters_find_bindings() -> None:
    literal, wild, prefix = binding(), binding("*"), binding("ord", prefixed=True)
    made = rules(literal, wild, prefix)
    assert made.matching(Filter()) == [literal, wild, prefix]
    assert made.matching(Filter(name="orders", pattern=Pattern.LITERAL)) == [literal]
    assert made.matching(Filter(name="orders", pattern=Pattern.ANY)) == [literal]
    assert made.matching(Filter(name="orders", pattern=Pattern.MATCH)) == [literal, wild, prefix]
    assert made.matching(Filter(name="x", pattern=Pattern.MATCH)) == [wild]
    assert made.matching(Filter(pattern=Pattern.PREFIXED)) == [prefix]
    assert made.matching(Filter(principal="User:bob")) == []
    assert made.matching(Filter(operation=WRITE)) == []


def test_super_users_are_principals() -> None:
    assert read_super_users("User:a; User:CN=b,O=c;") == ["User:a", "User:CN=b,O=c"]
    with pytest.raises(ValueError, match="User:admin"):
        read_super_users("admin")


NAMES = st.sampled_from(["a", "ab", "abc", "b", "*"])
BINDINGS = st.builds(
    binding,
    NAMES,
    st.sampled_from([READ, WRITE, DESCRIBE, ALL]),
    who=st.sampled_from(["User:alice", "User:bob", "User:*"]),
    host=st.sampled_from(["*", "10.0.0.1", "10.0.0.2"]),
    permission=st.sampled_from([ALLOW, DENY]),
    prefixed=st.booleans(),
)


@given(st.lists(BINDINGS, max_size=8), BINDINGS, st.sampled_from(["a", "ab", "abc", "b"]))
def test_a_further_denial_never_opens_and_a_further_allowance_never_closes(
    bindings: list[Binding], one: Binding, name: str
) -> None:
    before = may(rules(*bindings), name=name)
    after = may(rules(*bindings, one), name=name)
    assert after <= before if one.permission is DENY else after >= before
    assert may(rules(*reversed(bindings), one), name=name) == after


@given(st.lists(BINDINGS, max_size=12), st.sampled_from(["", "a", "ab", "abc", "abcd", "b", "*", "c"]))
def test_looking_bindings_up_finds_what_looking_at_each_would(bindings: list[Binding], name: str) -> None:
    covering = [one for one in dict.fromkeys(bindings) if one.covers(name)]
    said = {one.permission for one in covering if one.is_about("User:alice", "10.0.0.1") and one.speaks_of(READ)}
    assert may(rules(*bindings), name=name) == (said == {ALLOW})
    assert may(rules(*bindings, allow_everyone=True), name=name) == (said == {ALLOW} or not covering)
