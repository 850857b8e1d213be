"""Known flaws in what we ship: pip-audit over the packages that an installation brings along, with their versions.

Where its database cannot be reached there is nothing to say, and one line says that.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

OURS = "broker-lite"
EXTRAS = ("tls", "metrics")
SECONDS = 120
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)[^;]*(?:;(?P<marker>.*))?")


def shipped(name: str = OURS, seen: set[str] | None = None) -> Iterator[tuple[str, str]]:
    """(package, version) of everything that an installation with our extras has, as it is installed here."""
    seen = set() if seen is None else seen
    for line in importlib.metadata.requires(name) or ():
        found = _REQUIREMENT.match(line)
        assert found is not None, line
        marker = found["marker"] or ""
        if "extra ==" in marker and not (name == OURS and any(f"'{extra}'" in marker for extra in EXTRAS)):
            continue
        package = re.sub(r"[-_.]+", "-", found["name"]).lower()
        if package in seen:
            continue
        seen.add(package)
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:  # for another system or another Python
            continue
        yield package, version
        yield from shipped(package, seen)


def main() -> bool:
    """True if nothing is known against any of them, or nobody can be asked."""
    packages = list(shipped())
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "requirements.txt"
        listed.write_text("".join(f"{name}=={version}\n" for name, version in packages))
        options = ["--no-deps", "--disable-pip", "-r", str(listed), "-f", "json", "--progress-spinner", "off"]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pip_audit", *options],
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return _skipped("it did not answer")
    try:
        told = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return _skipped(done.stderr.strip().splitlines()[-1][:200] if done.stderr.strip() else "it said nothing")
    looked_at = [one for one in told if "vulns" in one]
    if not looked_at:
        return _skipped("it knows none of the packages")
    flawed = [one for one in looked_at if one["vulns"]]
    for one in flawed:
        print(f"{one['name']} {one['version']}: {', '.join(flaw['id'] for flaw in one['vulns'])}")
    print(f"{len(looked_at)} of {len(packages)} packages were looked at, {len(flawed)} have known flaws")
    return not flawed


def _skipped(why: str) -> bool:
    print(f"skipped: the database of pip-audit could not be asked ({why})")
    return True
