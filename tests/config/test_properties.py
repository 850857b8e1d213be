from __future__ import annotations

import pytest

from broker_lite.config.properties import parse


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1\nb: 2\nc 3", {"a": "1", "b": "2", "c": "3"}),
        ("  a = 1 \n", {"a": "1 "}),
        ("# no\n! no\n\n   # no\na=#yes", {"a": "#yes"}),
        ("a=1,\\\n    2,\\\n    3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("path=C:\\\\temp\\u0041\\t|", {"path": "C:\\tempA\t|"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=x\\", {"a": "x"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("listeners=PLAINTEXT://:9092,CONTROLLER://:9093", {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}),
        ("", {}),
    ],
)
def test_a_file_is_read_as_java_reads_it(text: str, found: dict[str, str]) -> None:
    assert parse(text) == found


def test_a_broken_escape_is_named() -> None:
    with pytest.raises(ValueError, match="four hexadecimal digits"):
        parse("a=\\u12")
