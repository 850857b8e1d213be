"""The rules of a run that counts: nothing is left out silently, and each test is in one part."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SKIPS = """
import pytest

def test_that_lacks_a_tool(): pytest.skip("no kcat here")

@pytest.mark.needs_root
def test_that_lacks_privileges(): pytest.skip("not root")

@pytest.mark.containers
def test_that_lacks_an_engine(): pytest.skip("no engine")

def test_that_passes(): pass
"""
LACKS_A_MODULE = 'import pytest\npytest.importorskip("no_such_module")\n\ndef test_nothing(): pass\n'


def run(folder: Path, *options: str, ci: str) -> str:
    """The outcome of a run of pytest in the folder, under our rules."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", *options]
    environment = {**os.environ, "CI": ci, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [*command, f"--rootdir={folder}", str(folder)], env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "test_some.py").write_text(SKIPS)
    return tmp_path


def test_on_a_users_machine_a_skip_is_a_skip(suite: Path) -> None:
    assert "1 passed, 3 skipped" in run(suite, ci="")


def test_where_everything_is_installed_a_skip_is_a_failure_that_says_why(suite: Path) -> None:
    said = run(suite, ci="true")
    assert "1 failed, 1 passed, 2 skipped" in said
    assert "with CI=true nothing may be left out, but this was: Skipped: no kcat here" in said


def test_a_whole_module_cannot_be_left_out_either(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(LACKS_A_MODULE)
    assert "1 skipped" in run(tmp_path, ci="")
    assert "1 error" in run(tmp_path, ci="true")


@pytest.mark.parametrize(
    ("part", "outcome"), [("unit", "1 passed, 2 skipped, 1 deselected"), ("containers", "1 skipped")]
)
def test_each_test_is_run_in_its_part(suite: Path, part: str, outcome: str) -> None:
    assert outcome in run(suite, "--part", part, ci="")
