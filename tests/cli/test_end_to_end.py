"""The commands as a person types them, against a broker in its own process."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from broker_lite.broker.journal import Change, Journal
from broker_lite.log import checkpoints, layout
from broker_lite.log.disk import RealDisk
from tests.conftest import BrokerFactory
from tests.support.broker import BrokerProcess

pytestmark = pytest.mark.slow

Finished = subprocess.CompletedProcess[str]


def command(broker: BrokerProcess, *words: str, stdin: str = "") -> Finished:
    return subprocess.run(
        [sys.executable, "-m", "broker_lite", *words],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, "BROKER_LITE_BOOTSTRAP": broker.bootstrap},
        timeout=60,
        check=False,
    )


def said(broker: BrokerProcess, *words: str, stdin: str = "") -> str:
    done = command(broker, *words, stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


def test_a_line_goes_in_and_comes_out(broker: BrokerProcess, topic: str) -> None:
    assert said(broker, "produce", topic, stdin="one\ntwo\nthree") == ""
    assert said(broker, "consume", topic, "--from-beginning", "--count", "3") == "one\ntwo\nthree\n"
    assert said(broker, "consume", topic, "--offset", "1", "--until-end") == "two\nthree\n"
    assert said(broker, "consume", topic, "--offset", "-1", "--until-end") == "three\n"
    assert said(broker, "consume", topic, "--from-timestamp", "0", "--max-messages", "1") == "one\n"
    assert said(broker, "consume", topic, "--idle", "0.05") == ""


def test_keys_headers_codecs_and_nulls_survive(broker: BrokerProcess, topic: str) -> None:
    said(broker, "topics", "create", topic, "--partitions", "2")
    said(broker, "produce", topic, "--key-separator", "=", "--header", "h=1", "--codec", "zstd", stdin="a=1\nb=NULL\n")
    said(broker, "produce", topic, "word", "--partition", "1", "--acks", "0", "--null", "x")
    lines = said(broker, "consume", topic, "--from-beginning", "--count", "3", "--format", "json").splitlines()
    records = {record["value"]: record for record in map(json.loads, lines)}
    assert records["1"]["key"] == "a"
    assert records["1"]["headers"] == [["h", "1"]]
    assert records["word"]["partition"] == 1
    assert records["word"]["key"] is None
    said(broker, "produce", topic, "--key-separator", "=", "--null", "NULL", stdin="a=NULL\n")
    shown = said(broker, "consume", topic, "--from-beginning", "--until-end", "--format", "{key}:{value}")
    assert "a:null\n" in shown


def test_topics_are_made_described_listed_and_deleted(broker: BrokerProcess, topic: str) -> None:
    assert said(broker, "topics", "create", topic, "--partitions", "3") == f"created {topic} with 3 partitions\n"
    assert said(broker, "topics", "create", topic, "--if-not-exists") == ""
    assert topic in said(broker, "topics", "list").split()
    assert topic in json.loads(said(broker, "topics", "list", "--json"))
    assert f"{topic}  3 partitions" in said(broker, "topics", "describe", topic)
    (described,) = json.loads(said(broker, "topics", "describe", topic, "--json"))
    assert [part["partition"] for part in described["partitions"]] == [0, 1, 2]
    assert said(broker, "topics", "delete", topic) == f"deleted {topic}\n"
    assert said(broker, "topics", "delete", topic, "--if-exists") == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["topics", "describe", "no-such-topic"], "UNKNOWN_TOPIC_OR_PARTITION: topic no-such-topic"),
        (["topics", "delete", "no-such-topic"], "UNKNOWN_TOPIC_OR_PARTITION"),
        (["topics", "create", "a/b"], "INVALID_TOPIC_EXCEPTION"),
        (["topics", "create", "a", "--partitions", "-5"], "INVALID_PARTITIONS"),
        (["topics", "create", "a", "--config", "x=1"], "INVALID_CONFIG: Unknown topic config name: x"),
        (["topics", "create", "a", "--replication-factor", "3"], "INVALID_REPLICATION_FACTOR"),
        (["consume", "no-such-topic"], "UNKNOWN_TOPIC_OR_PARTITION: topic no-such-topic"),
        (["produce", "a/b", "x"], "INVALID_TOPIC_EXCEPTION"),
        (["produce", "t", "--key-separator", ":", "x"], "has no ':' after its key"),
    ],
)
def test_a_refusal_is_one_line_and_exit_code_1(broker: BrokerProcess, words: list[str], says: str) -> None:
    done = command(broker, *words)
    assert done.returncode == 1
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_health_and_api_versions_tell_of_a_running_broker(broker: BrokerProcess) -> None:
    assert said(broker, "health").startswith("ready: broker 1 of cluster ")
    listed = json.loads(said(broker, "api-versions", "--json"))
    assert {"key": 18, "name": "ApiVersions", "min": 0, "max": 4} in listed
    assert "ApiVersions" in said(broker, "api-versions")


def test_a_reader_that_leaves_is_no_error(broker: BrokerProcess, topic: str) -> None:
    said(broker, "produce", topic, stdin="x\n" * 5000)
    pipe = f"{sys.executable} -m broker_lite consume {topic} --from-beginning --until-end | head -1"
    env = {**os.environ, "BROKER_LITE_BOOTSTRAP": broker.bootstrap}
    done = subprocess.run(["bash", "-o", "pipefail", "-c", pipe], capture_output=True, text=True, env=env, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "x\n", "")


def test_one_line_on_stdout_says_where_how_and_how_long(broker_process: BrokerFactory) -> None:
    broker = broker_process("--durability", "fsync")
    (line,) = broker.stdout.splitlines()
    assert line.startswith(f"broker-lite is ready on {broker.bootstrap} · data in {broker.data} · durability fsync · ")
    assert line.endswith(" ms")
    broker.stop()
    assert broker.stdout.splitlines() == [line]


def test_without_a_verb_it_serves_and_topics_are_made_at_start(broker_process: BrokerFactory) -> None:
    broker = broker_process("--topic", "a:3,cleanup.policy=compact,delete", "--topic", "b", KAFKA_NUM_PARTITIONS="2")
    assert "a  3 partitions" in said(broker, "topics", "describe", "a")
    assert "b  2 partitions" in said(broker, "topics", "describe", "b")
    said(broker, "produce", "b", "kept")
    broker.restart()
    assert said(broker, "consume", "b", "--from-beginning", "--count", "1") == "kept\n"


def test_plain_asyncio_serves_as_well(broker_process: BrokerFactory, topic: str) -> None:
    broker = broker_process(BROKER_LITE_UVLOOP="false")
    said(broker, "produce", topic, "x")
    assert said(broker, "consume", topic, "--from-beginning", "--count", "1") == "x\n"
    broker.stop()


IN_A_TERMINAL = """
import signal
from broker_lite.cli import main

signal.signal(signal.SIGHUP, signal.SIG_DFL)
raise SystemExit(main())
"""
"""Whoever runs the tests under nohup hands that down."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_and_a_closed_terminal_are_clean_stops_too(tmp_path: Path, number: signal.Signals) -> None:
    with BrokerProcess(tmp_path, command=[sys.executable, "-c", IN_A_TERMINAL]) as broker:
        assert broker.process is not None
        broker.process.send_signal(number)
        assert broker.process.wait(5) == 0
        assert (broker.data / ".kafka_cleanshutdown").exists()


def test_the_addresses_in_the_ready_file_are_those_of_every_listener(broker_process: BrokerFactory) -> None:
    broker = broker_process("--listen", "INSIDE://127.0.0.1:0", "--advertise", "INSIDE://127.0.0.1:0")
    assert set(broker.addresses) == {"PLAINTEXT", "INSIDE"}
    inside = BrokerProcess(broker.folder)
    inside.addresses = {"INSIDE": broker.addresses["INSIDE"]}
    assert said(inside, "produce", "t", "by the inner door") == ""
    assert said(broker, "consume", "t", "--from-beginning", "--count", "1") == "by the inner door\n"


def test_a_data_folder_whose_name_is_no_text_is_served_all_the_same(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.data = tmp_path / os.fsdecode(b"caf\xe9")
    with broker:
        assert r"caf\udce9" in broker.stdout


def test_under_nohup_a_closed_terminal_stops_nothing(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, command=["nohup", sys.executable, "-m", "broker_lite"]) as broker:
        assert broker.process is not None
        broker.process.send_signal(signal.SIGHUP)
        assert said(broker, "produce", "t", "still there") == ""
        broker.stop()


@pytest.mark.parametrize("gone", ["stdout full", "stderr full", "stdout unread", "stderr unread", "closed"])
def test_whatever_becomes_of_what_it_says_the_broker_serves_and_stops_cleanly(tmp_path: Path, gone: str) -> None:
    """A log on a full disk, a pipe whose reader has left, a parent that closed everything."""
    streams = {
        "stdout full": "> /dev/full",
        "stderr full": "2> /dev/full",
        "stdout unread": "> >(true)",
        "stderr unread": "2> >(true)",
        "closed": "<&- >&- 2>&-",
    }
    script = f'exec "$@" {streams[gone]}'
    broker = BrokerProcess(
        tmp_path,
        command=["bash", "-c", script, "bash", sys.executable, "-m", "broker_lite"],
        environment={"BROKER_LITE_LOG_LEVEL": "debug"},
    )
    with broker:
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", broker.port)) as stranger:
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                assert stranger.recv(1) == b""
        assert said(broker, "produce", "t", "hello") == ""
        assert said(broker, "consume", "t", "--from-beginning", "--count", "1") == "hello\n"
        broker.stop()


@pytest.mark.parametrize("reason", ["port", "folder", "ready file", "ready file is a folder", "ready file is closed"])
def test_a_start_that_is_refused_is_one_line_and_exit_code_1(
    broker: BrokerProcess, tmp_path: Path, reason: str
) -> None:
    words = {
        "port": ["--listen", broker.bootstrap, "--data", str(tmp_path)],
        "folder": ["--listen", "127.0.0.1:0", "--data", str(broker.data)],
        "ready file": ["--listen", "127.0.0.1:0", "--data", str(tmp_path), "--ready-file", str(tmp_path / "no" / "r")],
        "ready file is a folder": ["--listen", "127.0.0.1:0", "--data", str(tmp_path / "d"), "--ready-file", "/"],
        "ready file is closed": ["--listen", "127.0.0.1:0", "--data", str(tmp_path), "--ready-file", "/proc/1/r"],
    }[reason]
    done = command(broker, "serve", *words)
    assert done.returncode == 1
    assert done.stderr.count("broker-lite: ") == 1
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def _as_somebody() -> None:
    """Root that is asked for permissions like everybody else: without CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
    if os.geteuid() == 0:
        prctl, drop = ctypes.CDLL(None).prctl, 24
        for capability in (1, 2):
            prctl(drop, capability, 0, 0, 0)


@pytest.mark.parametrize(
    ("what", "why"), [("closed", "Permission denied"), ("closed/data", "Permission denied"), ("file", "File exists")]
)
def test_a_data_folder_that_cannot_be_one_is_one_line_and_exit_code_1(tmp_path: Path, what: str, why: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir(mode=0o500)
    folder = tmp_path / what
    done = subprocess.run(
        [sys.executable, "-m", "broker_lite", "serve", "--listen", "127.0.0.1:0", "--data", str(folder)],
        capture_output=True, text=True, timeout=60, check=False, preexec_fn=_as_somebody,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"broker-lite: the data folder {folder} cannot be used: {why}\n"
    assert [*(tmp_path / "closed").iterdir()] == []


@pytest.mark.parametrize(
    ("file", "becomes"),
    [
        ("t-0/00000000000000000000.log", None),
        ("t-0/leader-epoch-checkpoint", None),
        ("t-0/partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"),
        ("meta.properties", None),
        ("meta.properties", b"version=1\ncluster.id=\xff\xfe\n"),
        ("meta.properties", b"version=2\ncluster.id=c\nnode.id=1\n"),
        ("@journal/00000000000000000000.log", None),
    ],
)
def test_a_folder_that_cannot_be_opened_is_one_line_and_exit_code_1(
    broker_process: BrokerFactory, file: str, becomes: bytes | None
) -> None:
    broker = broker_process()
    said(broker, "produce", "t", "hello")
    broker.stop()
    path = broker.data / file
    path.unlink()
    if becomes is None:
        path.mkdir()
    else:
        path.write_bytes(becomes)
    done = command(broker, "serve", "--listen", "127.0.0.1:0", "--data", str(broker.data))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("broker-lite: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_a_damaged_journal_is_one_line_that_names_the_byte_and_what_to_do(tmp_path: Path, durability: str) -> None:
    journal = Journal.open(tmp_path, RealDisk(), now_ms=1_700_000_000_000, sync=False)
    journal.write([Change("config", "broker/1", {"configs": {"log.retention.ms": "5000"}})], 1_700_000_000_000)
    journal.write([Change("config", "broker/1", None)], 1_700_000_000_000)
    journal.close()
    (file,) = (tmp_path / "@journal").glob("*.log")
    data = bytearray(file.read_bytes())
    data[80] ^= 1
    file.write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-m", "broker_lite", "serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path),
         "--durability", durability, "--recover", "kafka"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"broker-lite: {file} is damaged at byte 0: ")
    assert f"`broker-lite fsck {tmp_path}`" in done.stderr
    assert done.stderr.count("\n") == 1
    assert file.read_bytes() == data


def test_a_folder_of_a_later_version_is_one_line_and_stays_as_it_is(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, RealDisk(), now_ms=1_700_000_000_000, sync=False)
    journal.write([Change("aura", "x", {})], 1_700_000_000_000)
    journal.close()
    checkpoints.mark_clean_shutdown(RealDisk(), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = subprocess.run(
        [sys.executable, "-m", "broker_lite", "serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"broker-lite: {tmp_path}/@journal/{0:020}.log, byte 0: the record of 'aura' 'x' is not understood: "
        "unknown kind 'aura'; start the version of broker-lite that wrote it\n"
    )
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == {**before, tmp_path / layout.LOCK: b""}


def test_an_unknown_key_of_the_environment_is_warned_of_in_the_log(broker_process: BrokerFactory) -> None:
    broker = broker_process(KAFKA_NUM_PARTITON="3", KAFKA_PROCESS_ROLES="broker", BROKER_LITE_LOG_LEVEL="debug")
    events = [json.loads(line) for line in broker.stderr.splitlines() if line.startswith("{")]
    (unknown,) = [event for event in events if event["event"] == "config.unknown_key"]
    assert (unknown["level"], unknown["key"]) == ("warning", "KAFKA_NUM_PARTITON")
    assert unknown["hint"] == "the nearest key is num.partitions"
    (ignored,) = [event for event in events if event["event"] == "config.ignored"]
    assert (ignored["level"], ignored["keys"]) == ("debug", "process.roles")
