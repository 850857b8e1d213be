from __future__ import annotations

import os
import subprocess
import sys

import pytest

from broker_lite import __version__
from broker_lite.cli import VERBS, main

ONE_LINE_ERRORS = [
    (["nope"], 2, "there is no verb 'nope'"),
    (["topics"], 2, "required: VERB"),
    (["topics", "create"], 2, "required: NAME"),
    (["topics", "create", "a", "--config", "x"], 2, "'x' is not KEY=VALUE"),
    (["produce", "t", "--codec", "brotli"], 2, "invalid choice: 'brotli'"),
    (["produce", "t", "--key", "a", "--key-separator", ":"], 2, "exclude each other"),
    (["consume", "t", "--format", "{x}"], 2, "nor a template with topic"),
    (["consume", "t", "--from-beginning", "--offset", "3"], 2, "not allowed with"),
    (["consume", "t", "--from-timestamp", "soon"], 2, "neither milliseconds nor a time"),
    (["health", "--bootstrap", "nowhere"], 2, "'nowhere' is not HOST:PORT"),
    (["health", "--bootstrap", "127.0.0.1:1"], 1, "cannot connect to 127.0.0.1:1: Connection refused"),
    (["health", "--bootstrap", "a..b:9092"], 1, "cannot connect to a..b:9092"),
    (["topics", "create", "a", "--partitions", "9" * 20], 2, "does not fit into 32 bits"),
    (["topics", "create", "a", "--replication-factor", "99999"], 2, "99999 does not fit into 16 bits"),
    (["consume", "a", "--offset", "9" * 20], 2, "does not fit into 64 bits"),
    (["consume", "a", "--offset", "9" * 5000], 2, "is not a whole number"),
    (["consume", "a", "--from-timestamp", "9" * 20], 2, "does not fit into 64 bits"),
    (["serve", "--set", "num.partition=3"], 1, "unknown key num.partition in --set; the nearest key is num.partitions"),
    (["--set", "num.partitions=x"], 1, "Invalid value x for configuration num.partitions"),
    (["--set", "nothing"], 2, "'nothing' is not KEY=VALUE"),
    (["--listen", "nowhere"], 1, "'nowhere' is not a listener"),
    (["--durability", "none"], 2, "invalid choice: 'none'"),
    (["--config", "/does/not/exist"], 1, "/does/not/exist: No such file or directory"),
    (["--data", ""], 1, "--data names no folder"),
    (["--topic", "a/b"], 1, "a character other than"),
    (["--topic", "a:" + "9" * 5000], 1, "is not a number of partitions"),
    (["--topic", "a,x=1"], 1, "--topic a: Unknown topic config name: x"),
    (["--topic", "a", "--topic", "a:2"], 1, "--topic names a twice"),
    (["--node-id", "x"], 1, "Invalid value x for configuration node.id: Not a number of type INT"),
]


@pytest.mark.parametrize(("words", "code", "says"), ONE_LINE_ERRORS)
def test_a_wrong_command_is_told_in_one_line(
    words: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    assert f"broker-lite {verb}" in capsys.readouterr().out


def test_the_version_and_the_verbs_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"broker-lite {__version__}\n"
    assert main(["--help"]) == 0
    told = capsys.readouterr().out
    assert all(verb in told for verb in VERBS)


@pytest.mark.parametrize("words", [["serve", "--help"], ["settings"]])
def test_what_a_locale_cannot_write_is_spelled_out(words: list[str]) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "broker_lite", *words]
    told = subprocess.run(command, capture_output=True, env=environment, check=True).stdout
    assert rb"\u2026" in told


def test_a_verb_is_imported_only_when_it_is_called() -> None:
    program = """
import sys, broker_lite.cli
broker_lite.cli.main(["--version"])
print(*sorted(name for name in sys.modules if name.startswith("broker_lite")))
"""
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[1] == "broker_lite broker_lite.cli"
