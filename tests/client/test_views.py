from __future__ import annotations

import pytest

from broker_lite.client.views import parse_bootstrap, refused
from broker_lite.errors import ErrorCode


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("a:1, b:2", [("a", 1), ("b", 2)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("PLAINTEXT://broker:9092", [("broker", 9092)]),
    ],
)
def test_a_bootstrap_list_is_understood(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(text) == addresses


@pytest.mark.parametrize("text", ["", "localhost", ":9092", "localhost:0", "localhost:x", "localhost:70000", "a:1,"])
def test_what_is_not_a_bootstrap_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        parse_bootstrap(text)


def test_a_code_becomes_a_refusal_with_its_name() -> None:
    assert str(refused(3, "topic x")) == "UNKNOWN_TOPIC_OR_PARTITION: topic x"
    assert refused(3, "").code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert str(refused(9999, "new")) == "error 9999: new"
