"""Names out of certificates, as Java writes them and as Kafka's rules shorten them."""

from __future__ import annotations

import pytest

from broker_lite.security.principals import MappingRules, distinguished_name

SUBJECT = [
    [("countryName", "DE")],
    [("organizationName", "Acme, Inc.")],
    [("organizationalUnitName", "shop")],
    [("commonName", "alice")],
]


def test_the_subject_is_written_last_part_first() -> None:
    assert distinguished_name(SUBJECT) == r"CN=alice,OU=shop,O=Acme\, Inc.,C=DE"


@pytest.mark.parametrize(
    ("part", "written"),
    [
        ([("commonName", 'a"b+c;d<e>f\\g')], r"CN=a\"b\+c\;d\<e\>f\\g"),
        ([("commonName", "#x")], r"CN=\#x"),
        ([("commonName", " x ")], r"CN=\ x\ "),
        ([("commonName", "a"), ("userId", "7")], "CN=a+UID=7"),
        ([("emailAddress", "a@b")], "1.2.840.113549.1.9.1=#1603614062"),
    ],
)
def test_special_characters_are_escaped(part: list[tuple[str, str]], written: str) -> None:
    assert distinguished_name([part]) == written


@pytest.mark.parametrize(
    ("rules", "user"),
    [
        ("DEFAULT", r"CN=alice,OU=shop,O=Acme\, Inc.,C=DE"),
        ("", r"CN=alice,OU=shop,O=Acme\, Inc.,C=DE"),
        ("RULE:^CN=(.*?),OU=shop.*$/$1@shop/", "alice@shop"),
        ("RULE:^CN=(.*?),OU=shop.*$/$1/U", "ALICE"),
        ("RULE:^CN=(.*?),OU=other.*$/$1/, RULE:^CN=(.*?),.*$/x-$1/L,DEFAULT", "x-alice"),
        ("RULE:CN=alice/never, as the pattern has to match all of it/,DEFAULT", r"CN=alice,OU=shop,O=Acme\, Inc.,C=DE"),
        (r"RULE:.*/a\/b/", "a/b"),
    ],
)
def test_the_first_rule_that_matches_counts(rules: str, user: str) -> None:
    assert MappingRules(rules).user(SUBJECT) == user


@pytest.mark.parametrize(
    "rules", ["RULE:a", "RULE:a/b", "RULE:a/b/X", "RULE:(/b/", "RULE:a/$1/", "DEFAULT DEFAULT", "x"]
)
def test_rules_that_cannot_be_read_are_refused(rules: str) -> None:
    with pytest.raises(ValueError):
        MappingRules(rules)
