"""The broker never loads the pipeline; the pipeline says in one line what it misses; and it knows its place."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import broker_lite

HOUSE = Path(broker_lite.__file__).parent


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, check=False, timeout=60
    )


def test_the_broker_loads_nothing_of_the_pipeline() -> None:
    code = (
        "import sys, broker_lite.cli.serve, broker_lite.broker.broker, broker_lite.apis.registry as r; r.load();"
        "print([m for m in sys.modules if m.split('.')[0] in ('pyspark', 'pyarrow', 'numpy', 'matplotlib')"
        " or m.startswith('broker_lite.pipeline')])"
    )
    assert run(code).stdout == "[]\n"


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("pyspark", "PySpark is missing; to have it: pip install 'broker-lite[spark]'"),
        ("pyarrow", "pyarrow is missing"),
    ],
)
def test_a_missing_module_is_one_line(missing: str, said: str, tmp_path: Path) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from broker_lite.cli import main;"
        f"sys.exit(main(['pipeline', 'audit', '--data', {str(tmp_path)!r}]))"
    )
    done = run(code)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr


@pytest.mark.parametrize(("version", "said"), [(None, "Java is missing"), ("11.0.2", "Java 11 at")])
def test_no_java_or_an_old_one_is_one_line(version: str | None, said: str, tmp_path: Path) -> None:
    if version is not None:
        java = tmp_path / "bin" / "java"
        java.parent.mkdir()
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        java.chmod(0o755)
    code = "import sys; from broker_lite.cli import main; sys.exit(main(['pipeline', 'audit', '--data', '.']))"
    done = run(code, JAVA_HOME=str(tmp_path))
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("source", sorted((HOUSE / "pipeline").glob("*.py")), ids=lambda path: path.name)
def test_of_the_log_only_the_layout_of_its_files_is_used(source: Path) -> None:
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("broker_lite.log"):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            assert all(name.startswith("broker_lite.log.layout") for name in names), names
