"""What the verbs print and how they read what people type, without a broker."""

from __future__ import annotations

import json

import pytest

from broker_lite.cli import main
from broker_lite.cli.consume import show, timestamp
from broker_lite.cli.produce import _record, parser
from broker_lite.config.broker import BROKER_KEYS
from broker_lite.config.topic import TOPIC_KEYS
from broker_lite.errors import InvalidRequest
from broker_lite.records.build import NewRecord
from broker_lite.records.record import Record

RECORD = Record(7, 1000, b"k", "wörd".encode(), (("h", b"1"), ("n", None)))
NULLS = Record(8, 1000, None, None)


def made(line: bytes, *words: str) -> NewRecord:
    return _record(line, parser().parse_args(["t", *words]))


def test_the_formats_of_a_record() -> None:
    assert show("value", "t", 0, RECORD) == "wörd\n".encode()
    assert show("kv", "t", 0, RECORD) == "k\twörd\n".encode()
    assert show("value", "t", 0, NULLS) == b"null\n"
    assert show("{topic}-{partition}@{offset} {key}={value} {headers}", "t", 3, RECORD).decode() == (
        "t-3@7 k=wörd h=1,n=null\n"
    )


def test_json_keeps_every_byte() -> None:
    line = json.loads(show("json", "t", 3, Record(7, 1000, b"\xff\x00", b"v", (("h", b"\xfe"),))))
    assert line == {
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "timestamp": 1000,
        "key": {"base64": "/wA="},
        "value": "v",
        "headers": [["h", {"base64": "/g=="}]],
    }
    assert json.loads(show("json", "t", 0, NULLS))["value"] is None


def test_bytes_that_are_not_text_pass_through_a_template_unharmed() -> None:
    assert show("{value}", "t", 0, Record(0, 0, None, b"\xff\xfe")) == b"\xff\xfe\n"


def test_a_line_becomes_a_record() -> None:
    assert made(b"hello") == NewRecord(None, b"hello")
    assert made(b"k:v:w", "--key-separator", ":") == NewRecord(b"k", b"v:w")
    assert made(b"v", "--key", "k", "--header", "a=1") == NewRecord(b"k", b"v", (("a", b"1"),))
    assert made(b"k:NULL", "--key-separator", ":", "--null", "NULL") == NewRecord(b"k", None)


def test_a_line_without_its_separator_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="'hello' has no ':' after its key"):
        made(b"hello", "--key-separator", ":")


def test_a_time_is_a_number_or_an_iso_time() -> None:
    assert timestamp("1500") == 1500
    assert timestamp("1970-01-01T00:00:02+00:00") == 2000


def test_settings_lists_every_key_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ([], ["--markdown"], ["--json"]):
        assert main(["settings", *form]) == 0
        out = capsys.readouterr().out
        assert all(name in out for name in (*BROKER_KEYS, *TOPIC_KEYS))
    listed = json.loads(out)
    assert len(listed) == len(BROKER_KEYS) + len(TOPIC_KEYS)
    assert main(["settings", "retention.ms"]) == 0
    assert "log.retention.ms  long" in capsys.readouterr().out
    assert main(["settings", "no.such.key"]) == 1
