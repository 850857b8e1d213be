from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest
import structlog

from broker_lite import logs


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def said(stream: io.StringIO, wanted: str = "auto", level: str = "info") -> str:
    logs.set_up(wanted, level=level, stream=stream)
    log = structlog.get_logger()
    log.debug("segment.rolled", base=1)
    log.info("broker.stopping", signal="SIGTERM")
    return stream.getvalue()


def test_elsewhere_than_on_a_terminal_an_event_is_a_line_of_json() -> None:
    (line,) = said(io.StringIO()).splitlines()
    event = json.loads(line)
    assert (event["event"], event["signal"], event["level"]) == ("broker.stopping", "SIGTERM", "info")
    assert event["timestamp"].endswith("Z")


def test_on_a_terminal_it_is_made_for_people() -> None:
    text = said(Terminal())
    assert "broker.stopping" in text
    assert not text.startswith("{")


def test_the_form_and_the_level_can_be_chosen() -> None:
    assert said(Terminal(), "json").startswith("{")
    assert not said(io.StringIO(), "pretty").startswith("{")
    assert "segment.rolled" in said(io.StringIO(), level="debug")
    assert said(io.StringIO(), level="error") == ""


def test_a_traceback_is_part_of_the_event() -> None:
    out = io.StringIO()
    logs.set_up("json", stream=out)
    try:
        raise ValueError("why")
    except ValueError:
        structlog.get_logger().exception("request.failed")
    assert "ValueError: why" in json.loads(out.getvalue())["exception"]
