"""Bandit has nothing to say that was not looked at and answered here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ANSWERED = {
    ("wire/codec.py", "B102"): "runs source that we wrote from our own declarations, never what came from outside",
    ("wire/schema.py", "B102"): "the same",
    ("shapes.py", "B102"): "the same",
    ("cli/certs.py", "B105"): "the password of throw-away files, Java's habit",
    ("security/sasl.py", "B105"): "a sentence about passwords",
    ("cli/serve.py", "B104"): "an address that is printed",
    ("server/jks.py", "B324"): "SHA-1 is what Java's key stores are made of",
    ("config/listeners.py", "B104"): "addresses that are recognised",
    ("server/listener.py", "B104"): "an empty host is every interface, by the user's own word",
    ("broker/fetch_sessions.py", "B311"): "the numbers of sessions tell clients apart and protect nothing",
    ("cli/serve.py", "B610"): "has nothing to do with Django",
    ("log/log.py", "B608"): "a log message, not SQL",
}


def test_bandit_finds_nothing_new() -> None:
    command = [sys.executable, "-m", "bandit", "-q", "-f", "json", "-s", "B101", "-r", "broker_lite"]
    done = subprocess.run(
        [*command, "-x", "broker_lite/pipeline"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    found = [
        (one["filename"].removeprefix("broker_lite/"), one["test_id"], one["line_number"], one["issue_text"])
        for one in json.loads(done.stdout)["results"]
    ]
    assert [one for one in found if one[:2] not in ANSWERED] == []
