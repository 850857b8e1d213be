"""The parts that `make check` and `make test` are made of: run in order, each timed, all of them even if one fails.

    python -m tests.support.parts lint|check|all

A part that finds no tests says so and counts as done.  With CI=true and as root the Debian packages the tests use are
installed; elsewhere one line says what to type, and the tests that need them are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support import audit

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
DEBIAN_PACKAGES = {"kcat": "kcat", "strace": "strace", "mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs"}
"""By the command that tells whether it is there. The file systems are for power cuts, which only root can make."""
NO_TESTS_COLLECTED = 5


def main(arguments: Sequence[str]) -> int:
    named = {"lint": LINT, "check": [*LINT, *UNIT], "all": [*LINT, *UNIT, *REST]}
    if len(arguments) != 1 or arguments[0] not in named:
        print(__doc__, file=sys.stderr)
        return 2
    begin = time.monotonic()
    results: list[tuple[str, bool, float]] = []
    for name, run in named[arguments[0]]:
        print(f"\n=== {name}", flush=True)
        start = time.monotonic()
        good = run()
        results.append((name, good, time.monotonic() - start))
    print("\n=== time of each part")
    for name, good, seconds in results:
        print(f"  {name:<11} {seconds:7.1f} s  {'' if good else 'FAILED'}")
    print(f"  {'together':<11} {time.monotonic() - begin:7.1f} s", flush=True)
    return 0 if all(good for _, good, _ in results) else 1


def tool(*command: str) -> Callable[[], bool]:
    def run() -> bool:
        return subprocess.run([str(BIN / command[0]), *command[1:]], cwd=ROOT, check=False).returncode == 0

    return run


def tests(part: str, *options: str) -> Callable[[], bool]:
    def run() -> bool:
        command = [str(BIN / "python"), "-m", "pytest", "-q", f"--part={part}", *options]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        return code in (0, NO_TESTS_COLLECTED)

    return run


def debian_packages() -> bool:
    """All of them are there, or a line says how to get them."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [package for command, package in DEBIAN_PACKAGES.items() if not shutil.which(command, path=path)]
    if not missing:
        print(f"{', '.join(DEBIAN_PACKAGES.values())} are installed")
        return True
    if os.environ.get("CI") != "true" or os.geteuid() != 0 or not shutil.which("apt-get"):
        print(f"what needs {', '.join(missing)} is skipped; to have it: sudo apt-get install {' '.join(missing)}")
        return True
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
        if subprocess.run(["apt-get", "-qq", *command], env=environment, check=False).returncode != 0:
            return False
    return True


TWO_FILES_AT_ONCE = ("-n", "2", "--dist", "loadfile")
"""For tests that mostly wait: for sessions to end, for other people's programs to start. A file stays in one worker, so
what is started for a module is started once."""

Part = tuple[str, Callable[[], bool]]
LINT: list[Part] = [
    ("ruff check", tool("ruff", "check", ".")),
    ("ruff format", tool("ruff", "format", "--check", ".")),
    ("mypy", tool("mypy", "--strict")),
]
UNIT: list[Part] = [("unit", tests("unit", "-n", "2"))]
REST: list[Part] = [
    ("packages", debian_packages),
    ("audit", audit.main),
    ("packaging", tests("packaging")),
    ("docs", tests("docs")),
    # a build may take longer than a test may
    ("programs", tool("python", "-m", "tests.clients.roster")),
    ("clients", tests("clients", *TWO_FILES_AT_ONCE)),
    ("kafka", tests("kafka", *TWO_FILES_AT_ONCE)),
    ("spark", tests("spark", *TWO_FILES_AT_ONCE)),
    ("slow", tests("slow")),
    ("containers", tests("containers")),
]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
