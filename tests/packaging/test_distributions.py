"""What a stranger installs: the wheel and the sdist, in an environment that holds nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import broker_lite
from tests.support.broker import BrokerProcess

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]


def run(command: Sequence[str | Path], *, stdin: str = "", cwd: Path | None = None, **environment: str) -> str:
    """Run it to its end; returns what it printed, or fails showing it."""
    result = subprocess.run(
        [str(word) for word in command],
        input=stdin,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, f"{command}: {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--outdir", folder, ROOT])
    return folder


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    return next(distributions.glob("*.whl"))


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that holds the wheel and what it asks for."""
    home = tmp_path_factory.mktemp("home") / "venv"
    run([sys.executable, "-m", "venv", home])
    run([home / "bin" / "python", "-m", "pip", "install", "--no-input", "-q", wheel])
    return home / "bin"


@pytest.fixture(scope="module")
def installed_broker(scripts: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    command = [str(scripts / "broker-lite")]
    with BrokerProcess(tmp_path_factory.mktemp("installed"), command=command) as broker:
        yield broker


def test_the_wheel_holds_the_typed_package_and_nothing_of_the_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "broker_lite/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"broker_lite"}
    metadata = next(name for name in names if name.endswith("METADATA"))
    text = zipfile.ZipFile(wheel).read(metadata).decode()
    assert "License-Expression: Apache-2.0" in text
    assert "Requires-Python: >=3.11" in text


def test_the_sdist_brings_its_tests(distributions: Path) -> None:
    with tarfile.open(next(distributions.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "broker_lite/__main__.py", "tests/conftest.py"} <= names


def test_both_ways_to_start_it_tell_the_version(scripts: Path, tmp_path: Path) -> None:
    assert broker_lite.__version__ in run([scripts / "broker-lite", "--version"], cwd=tmp_path)
    assert broker_lite.__version__ in run([scripts / "python", "-m", "broker_lite", "--version"], cwd=tmp_path)


def test_an_installed_broker_takes_a_message_and_gives_it_back(
    installed_broker: BrokerProcess, scripts: Path, tmp_path: Path
) -> None:
    cli, where = scripts / "broker-lite", {"BROKER_LITE_BOOTSTRAP": installed_broker.bootstrap}
    run([cli, "produce", "greetings"], stdin="hello from a wheel\n", cwd=tmp_path, **where)
    read = run([cli, "consume", "greetings", "--from-beginning", "--count", "1"], cwd=tmp_path, **where)
    assert read == "hello from a wheel\n"
    run([cli, "health"], cwd=tmp_path, **where)
    installed_broker.restart()
    assert run([cli, "consume", "greetings", "--from-beginning", "--count", "1"], cwd=tmp_path, **where) == read
    installed_broker.stop()
