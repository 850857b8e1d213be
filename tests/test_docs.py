"""The README does what it says: each of its commands is run, in a copy that nobody has touched.

The copy gets its own environment from `make run`, as a clone would; the broker that then runs serves the clients of the
other blocks.  Commands that need a container engine are run by tests/containers, and `make check` and `make test` by
whoever runs this.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker_lite.broker import acls, configs, features, producer_ids, quotas, topics, users
from broker_lite.ids import KRAFT_TOPIC
from broker_lite.log import layout
from broker_lite.partition import snapshots
from tests.support import generated, kafka_tools
from tests.support.messages import read
from tests.support.readme import ROOT, Block, blocks, fresh_copy
from tests.support.sockets import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.docs, pytest.mark.timeout(600)]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN_BY_WHOEVER_RUNS_THIS = {"make check", "make test"}
RUN_WITH_AN_ENGINE = {"docker compose up"}


@dataclass
class FirstMinute:
    """A fresh copy in which `make run` runs."""

    copy: Path
    port: int

    def shell(self, block: Block, **environment: str) -> str:
        """Run the block as somebody would who stands in the clone and has activated its environment."""
        path = f"{self.copy}/tools:{os.environ['PATH']}"
        activate = block_with("activate").text
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", activate + block.at(self.port)],
            cwd=self.copy,
            env={**os.environ, "PATH": path, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert result.returncode == 0, f"README.md:{block.line}\n{result.stdout}\n{result.stderr}"
        return result.stdout


@pytest.fixture(scope="module")
def first_minute(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirstMinute]:
    copy, port = fresh_copy(tmp_path_factory.mktemp("clone")), free_port()
    said = copy.parent / "said"
    assert block_with("make run").commands == ["make run"]
    with said.open("wb") as out:
        make = subprocess.Popen(
            ["make", "run"],
            cwd=copy,
            env={**os.environ, "PORT": str(port)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until(lambda: "ready" in said.read_text() or make.poll() is not None, within=240, what="make run")
        assert make.poll() is None, said.read_text()
        yield FirstMinute(copy, port)
        os.killpg(make.pid, signal.SIGINT)
        make.wait(20)
    finally:
        if make.poll() is None:
            os.killpg(make.pid, signal.SIGKILL)
            make.wait()


def block_with(text: str, language: str = "sh") -> Block:
    found = [block for block in blocks() if block.language == language and text in block.text]
    assert found, f"the README has no {language} block with {text!r}"
    return found[0]


def test_make_run_serves_with_its_data_in_the_clone(first_minute: FirstMinute) -> None:
    assert (first_minute.copy / "data" / "meta.properties").exists()


def test_the_first_message_from_python(first_minute: FirstMinute) -> None:
    first_minute.shell(block_with("pip install"))
    script = block_with("confluent_kafka", "python").at(first_minute.port)
    result = subprocess.run(
        [first_minute.copy / ".venv/bin/python", "-"],
        input=script,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.stdout == "hello from Python\n", result.stderr


def test_the_first_message_from_java(first_minute: FirstMinute) -> None:
    kafka_tools.scripts(first_minute.copy / "tools")
    assert "hello from Java" in first_minute.shell(block_with("kafka-console-producer.sh"))


def test_the_first_message_from_kcat(first_minute: FirstMinute) -> None:
    if not shutil.which("kcat"):
        pytest.skip("kcat is not installed; to have it: sudo apt-get install kcat")
    assert "hello from kcat" in first_minute.shell(block_with("kcat"))
    assert read(f"localhost:{first_minute.port}", "third") == [b"hello from kcat"]


def test_the_commands_of_the_broker_itself(first_minute: FirstMinute) -> None:
    assert "num.partitions" in first_minute.shell(block_with("broker-lite settings"))


def test_a_broker_that_is_protected(first_minute: FirstMinute) -> None:
    """The four blocks of the section, as somebody follows them; the port is another one, the broker ends with us."""
    kafka_tools.scripts(first_minute.copy / "tools")
    port = free_port()

    def here(block: Block) -> Block:
        return Block(block.line, block.language, block.text.replace(":9093", f":{port}"))

    serve, letter = here(block_with("broker-lite certs")), here(block_with("kafka-acls.sh"))
    (first_minute.copy / "client.properties").write_text(block_with("sasl.mechanism", "properties").text)
    reads = here(block_with("sasl.username", "python")).text
    health = f"broker-lite health --bootstrap localhost:{port} --command-config client.properties"
    script = [
        "trap 'kill %1; wait' EXIT",
        f"{serve.text.rstrip()} &",
        f"until {health}; do true; done > /dev/null 2>&1",
        "pip install -q confluent-kafka",
        letter.text.rstrip(),
        f"python - <<'END'\n{reads}\nEND",
    ]
    assert "for bob's eyes" in first_minute.shell(Block(serve.line, "sh", "\n".join(script)))


def test_the_picture_is_a_true_one(first_minute: FirstMinute, tmp_path: Path) -> None:
    picture, port = block_with("broker-lite serve", "console"), free_port()
    picture = Block(picture.line, "console", picture.at(port).replace("/tmp/demo", str(tmp_path / "demo")))
    serve, *rest = picture.commands
    wait = "until broker-lite health; do true; done > /dev/null 2>&1"
    script = Block(picture.line, "sh", "\n".join(["trap 'kill %1; wait' EXIT", serve, wait, *rest]))
    here = {"BROKER_LITE_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}", "BROKER_LITE_BOOTSTRAP": f"127.0.0.1:{port}"}
    said = first_minute.shell(script, **here)
    shown = [line for line in picture.text.splitlines() if not line.startswith("$ ")]
    pattern = "\n".join(".*".join(map(re.escape, line.split("…"))) for line in shown)
    assert re.fullmatch(pattern, said.rstrip()), f"the README shows\n{shown}\nbut it is\n{said}"


def test_every_command_of_the_readme_is_run_by_some_test() -> None:
    ours = {"make run", ". .venv/bin/activate", *RUN_BY_WHOEVER_RUNS_THIS, *RUN_WITH_AN_ENGINE, "broker-lite settings"}
    clients = ("pip install", "kafka-console", "kcat", "certs", "--set authorizer.class.name", "client.properties")
    for block in blocks():
        if block.language != "sh":
            continue
        for command in block.commands:
            assert command in ours or any(word in command for word in clients), f"README.md:{block.line} {command}"
    assert (ROOT / ".ci/run").read_text().rstrip().endswith("exec make test")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} points to {target}"


@pytest.mark.parametrize("page", generated.PAGES, ids=lambda page: page.name)
def test_generated_text_is_up_to_date(page: Path) -> None:
    assert page.read_text() == generated.render(page), f"{page.name} is out of date: make docs"


def test_every_file_and_every_kind_of_decision_is_on_the_page_of_formats() -> None:
    page = (ROOT / "docs/formats.md").read_text()
    files = {value for name, value in vars(layout).items() if name.isupper() and isinstance(value, str)} - {KRAFT_TOPIC}
    kinds = {
        topics.TOPIC,
        topics.DELETED,
        *(room.KIND for room in (acls, configs, features, producer_ids, quotas, users)),
    }
    told = [*files, snapshots.BATCHES, *(f"| `{kind}` |" for kind in kinds)]
    assert [each for each in told if each not in page] == []
