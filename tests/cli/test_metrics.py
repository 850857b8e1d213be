"""The page that Prometheus reads."""

from __future__ import annotations

import json
import re
import socket
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketListener

from broker_lite.cli import scrape
from broker_lite.cli.host_header import host_check
from broker_lite.client.client import Client
from broker_lite.client.groups import commit
from broker_lite.errors import StorageFailed
from broker_lite.ids import TopicPartition
from tests.cli.test_end_to_end import command, said
from tests.conftest import BrokerFactory
from tests.support.broker import BrokerProcess


@pytest.fixture
def watched(broker_process: BrokerFactory) -> BrokerProcess:
    return broker_process("--metrics", "127.0.0.1:0")


def url_of(broker: BrokerProcess) -> str:
    events = [json.loads(line) for line in broker.stderr.splitlines() if line.startswith("{")]
    return str(next(event["url"] for event in events if event["event"] == "metrics.ready"))


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return str(answer.read().decode())


def value(page: str, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", page, re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def test_what_clients_do_is_counted(watched: BrokerProcess) -> None:
    said(watched, "produce", "t", stdin="a\nb\nc\n")

    async def commit_one() -> None:
        async with await Client.connect(watched.bootstrap) as client:
            await commit(client, "g", {TopicPartition("t", 0): 1})

    anyio.run(commit_one)
    page = read(url_of(watched))
    assert value(page, 'broker_lite_request_seconds_count{api="Produce"}') == 1
    assert value(page, 'broker_lite_request_seconds_bucket{api="Produce",le="+Inf"}') == 1
    assert value(page, 'broker_lite_received_bytes_total{api="Produce"}') > 70
    assert value(page, 'broker_lite_sent_bytes_total{api="Metadata"}') > 0
    assert value(page, 'broker_lite_log_bytes{topic="t"}') > 60
    assert value(page, 'broker_lite_log_offsets{topic="t"}') == 3
    assert value(page, 'broker_lite_group_lag{group="g"}') == 2
    assert value(page, "broker_lite_open_transactions") == 0
    assert value(page, "broker_lite_groups") == 1
    assert value(page, "broker_lite_producers") == 0
    assert value(page, "broker_lite_fetch_sessions") == 0
    assert value(page, "broker_lite_parked_requests") == 0
    assert value(page, "broker_lite_tasks") > 3
    assert value(page, "broker_lite_loop_lag_seconds") >= 0
    assert value(page, "process_resident_memory_bytes") > 0


def test_other_paths_and_methods_are_refused(watched: BrokerProcess) -> None:
    url = url_of(watched)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        read(url.replace("/metrics", "/secrets"))
    with pytest.raises(urllib.error.HTTPError, match="405"):
        urllib.request.urlopen(url, data=b"x", timeout=30)


@pytest.mark.slow
def test_visitors_who_say_nothing_do_not_use_up_the_files_of_the_broker(tmp_path: Path) -> None:
    few_files = ["bash", "-c", 'ulimit -n 90; exec "$@"', "bash", sys.executable, "-m", "broker_lite"]
    with BrokerProcess(tmp_path, ["--metrics", "127.0.0.1:0"], command=few_files) as broker:
        host, port = urllib.parse.urlsplit(url_of(broker)).netloc.split(":")
        silent = [socket.create_connection((host, int(port)), timeout=10) for _ in range(120)]
        assert said(broker, "produce", "t", "hello") == ""
        for one in silent:
            one.close()
        assert value(read(url_of(broker)), "broker_lite_topics") >= 1
        broker.stop()


async def test_a_page_that_cannot_be_made_costs_one_visit() -> None:
    def broken() -> bytes:
        raise StorageFailed("a log cannot be opened")

    pages = {b"/broken": ("text/plain", broken), b"/": ("text/plain", lambda: b"good")}
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    (one,) = listener.listeners
    assert isinstance(one, SocketListener)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scrape.welcome, one, pages, host_check([], []))
        for path, says in ((b"/broken", b""), (b"/", b"good")):
            async with await anyio.connect_tcp("127.0.0.1", one.extra(SocketAttribute.local_port)) as visitor:
                await visitor.send(b"GET " + path + b" HTTP/1.1\r\n\r\n")
                received = b"".join([part async for part in visitor])
                assert received.endswith(says)
                assert bool(received) is bool(says)
        tasks.cancel_scope.cancel()
    await listener.aclose()


def visit(url: str, *lines: str, version: str = "1.1", end: str = "\r\n\r\n") -> tuple[int, str]:
    """A request as it stands, over a socket: the status and the body."""
    where = urllib.parse.urlsplit(url)
    with socket.create_connection((str(where.hostname), where.port), 20) as visitor:
        visitor.sendall(("\r\n".join([f"GET /metrics HTTP/{version}", *lines]) + end).encode())
        head, _, body = b"".join(iter(lambda: visitor.recv(65_536), b"")).partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body.decode()


def test_the_page_answers_to_names_that_no_attacker_can_own(watched: BrokerProcess) -> None:
    """DNS rebinding: the page of evil.example lets its own name stand for 127.0.0.1 and asks for what lies there."""
    url = url_of(watched)
    port = urllib.parse.urlsplit(url).port
    for host in ("127.0.0.1", "localhost", "kafka", "broker-lite", "kafka.default.svc.cluster.local", "[::1]"):
        for header in (host, f"{host}:{port}"):
            assert visit(url, f"Host: {header}")[0] == 200, header
    for host in ("evil.example", "evil.example.", "127.0.0.1.evil.example", "localhost.evil.example", "kafka.com"):
        for header in (host, f"{host}:{port}", host.upper()):
            status, body = visit(url, f"Host: {header}")
            assert (status, "broker.lite.metrics.hosts" in body, "broker_lite_topics" in body) == (403, True, False)
    assert visit(url, "host:evil.example", "X: y")[0] == 403, "headers know no case, and no space"
    assert visit(url, "Host: 127.0.0.1", "Host: evil.example")[0] == 400
    assert visit(url, "X: " + "x" * 9000, end="")[0] == 431, "nothing is answered before all is heard"
    assert visit(url)[0] == visit(url, version="1.0")[0] == 200, "a browser names its host"


def test_the_page_answers_to_further_names_of_a_setting(broker_process: BrokerFactory) -> None:
    named = "broker.lite.metrics.hosts=kafka.example.com,*.monitoring"
    url = url_of(broker_process("--metrics", "127.0.0.1:0", "--set", named))
    for host in ("kafka.example.com", "Kafka.Example.com:9404", "kafka.monitoring"):
        assert visit(url, f"Host: {host}")[0] == 200, host
    for host in ("evil.example", "example.com", "evilkafka.example.com", "a.kafka.example.com", "kafka.monitoring.com"):
        assert visit(url, f"Host: {host}")[0] == 403, host


@pytest.mark.parametrize(
    ("host", "answered"),
    [
        ("10.0.0.7:9404", True),
        ("127.1", True),
        ("[fd00::1]:9404", True),
        ("kafka-0", True),
        ("host.docker.internal", True),
        ("kafka.default.svc", True),
        ("laptop.local", True),
        ("kafka.my_default", True),
        ("kafka.team-1:9404", True),
        ("kafka.monitoring", False),
        ("evil.xn--p1ai", False),
        ("evil.\u0440\u0444", False),
        ("me.corp.example.com:9092", True),
        ("corp.example.com", False),
        ("x.me.corp.example.com", False),
        ("local.evil.example", False),
        ("evil.notlocal", False),
        ("10.0.0.7.evil.example", False),
        ("evil.example.\u0661", False),
        ("", True),
    ],
)
def test_whose_host_is_answered(host: str, answered: bool) -> None:
    assert host_check(["me.corp.example.com"], [])(host) is answered


def test_any_host_is_answered_where_that_is_wanted() -> None:
    assert host_check([], ["*"])("evil.example")


def test_nothing_listens_unless_it_is_wanted(broker: BrokerProcess) -> None:
    assert "metrics.ready" not in broker.stderr


def test_an_address_that_is_taken_is_one_line(watched: BrokerProcess, tmp_path: object) -> None:
    port = url_of(watched).rpartition(":")[2].removesuffix("/metrics")
    done = command(
        watched, "serve", "--listen", "127.0.0.1:0", "--data", f"{tmp_path}/d", "--metrics", f"127.0.0.1:{port}"
    )
    assert done.returncode == 1
    assert "--metrics" in done.stderr


def test_names_that_clients_make_up_do_not_make_the_page_grow_for_ever() -> None:
    values = Counter({f"t{number:05}": 1 for number in range(scrape.MOST_NAMES + 50)})
    (family,) = [scrape._bounded("x", "about", "topic", values)]
    assert len(family.samples) == scrape.MOST_NAMES + 1
    assert (family.samples[-1].labels, family.samples[-1].value) == ({"topic": scrape.OTHER}, 50)


def test_the_dashboard_asks_for_what_the_page_has(watched: BrokerProcess) -> None:
    said(watched, "produce", "t", stdin="a\n")
    page = read(url_of(watched))
    board = json.loads((Path(__file__).parents[2] / "docker" / "grafana.json").read_text())
    asked = {name for panel in board["panels"] for target in panel["targets"] for name in _names(target["expr"])}
    assert len(board["panels"]) >= 8
    for name in asked:
        assert f"# TYPE {re.sub('_(total|bucket|sum|count)$', '', name)}" in page, name


def test_the_docs_name_what_the_page_has(watched: BrokerProcess) -> None:
    said(watched, "produce", "t", stdin="a\n")
    there = set(re.findall(r"^# TYPE (broker_lite_\w+)", read(url_of(watched)), re.MULTILINE))
    assert set(_names((Path(__file__).parents[2] / "docs" / "metrics.md").read_text())) == there


def _names(expression: str) -> list[str]:
    return re.findall(r"\b(?:broker_lite|process)_\w+", expression)
