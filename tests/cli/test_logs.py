from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog

from broker_lite import logs


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = structlog.get_config()
    yield
    logs.set_up()
    logs.prepare()
    structlog.configure(**before)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def said(stream: io.StringIO, wanted: str = "auto", level: str = "info") -> str:
    logs.set_up(wanted, level=level, stream=stream)
    log = logs.get_logger("tests")
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


class Broken(io.StringIO):
    def write(self, _text: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_line_that_cannot_be_written_costs_nobody_anything() -> None:
    assert said(Broken()) == ""
    closed = io.StringIO()
    logs.set_up(stream=closed)
    closed.close()
    logs.get_logger("tests").info("broker.stopping")


def test_a_pipe_that_nobody_reads_stops_nobody_and_what_it_did_not_take_is_counted() -> None:
    reads, writes = os.pipe()
    with open(reads, "rb", buffering=0) as reader, open(writes, "w") as out:
        logs.set_up("json", stream=out)
        log = logs.get_logger("tests")
        for number in range(2000):
            log.info("segment.rolled", base=number, why="x" * 3000 * (number % 2))
        whole = reader.read(1 << 20).splitlines()
        log.info("broker.stopping")
        last = json.loads(reader.read(1 << 20).splitlines()[-1])
    assert [json.loads(line)["base"] for line in whole[:-1]] == list(range(len(whole) - 1))
    assert last["event"] == "broker.stopping"
    assert last["lines_lost"] > 1900


def test_an_event_is_lost_where_no_file_can_be_opened_and_the_next_one_is_told() -> None:
    program = """
import resource, sys
from broker_lite import logs
logs.set_up("json")
log = logs.get_logger("tests")
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
log.info("first")
logs.prepare()
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
log.info("second")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == ["second"]


def test_a_traceback_is_part_of_the_event() -> None:
    out = io.StringIO()
    logs.set_up("json", stream=out)
    try:
        raise ValueError("why")
    except ValueError:
        logs.get_logger("tests").exception("request.failed")
    assert "ValueError: why" in json.loads(out.getvalue())["exception"]


def test_a_logger_follows_the_root_until_it_has_a_level_of_its_own() -> None:
    out = io.StringIO()
    logs.set_up("json", level="error", stream=out)
    logs.set_level("tests.loud", logs.LEVELS["debug"])
    logs.get_logger("tests.loud").debug("heard")
    logs.get_logger("tests.quiet").warning("not heard")
    logs.set_level("tests.loud", None)
    logs.get_logger("tests.loud").debug("not heard any more")
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == ["heard"]
    assert logs.loggers()["tests.quiet"] == logs.LEVELS["error"]


def test_a_broker_that_has_nothing_to_say_does_not_import_structlog() -> None:
    names = "import sys; import broker_lite.broker.broker, broker_lite.apis.registry, broker_lite.server.listener"
    code = f"{names}; sys.exit('structlog' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_a_stranger_wrote_begins_no_line_and_does_not_speak_to_the_terminal() -> None:
    name = "x\n2026 [info] broker.stopped\x1b[2J\x1b]0;owned\x07\u202e"
    for out, form in ((io.StringIO(), "json"), (io.StringIO(), "pretty"), (Terminal(), "pretty")):
        logs.set_up(form, stream=out)
        logs.get_logger("tests").warning("transaction.timed_out", transactional_id=name)
        (line,) = out.getvalue().splitlines()
        assert "\x1b[2J" not in line
        assert "\x1b]0" not in line
        assert "\u202e" not in line
