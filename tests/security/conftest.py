"""Certificates for the tests that come in over TLS."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.cli import certs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those of the broker and of alice, and in `strange` others of the same names that nobody here trusts."""
    made = tmp_path_factory.mktemp("certs")
    certs.make(made, ["localhost", "127.0.0.1"], client="alice")
    certs.make(made / "strange", ["localhost", "127.0.0.1"], client="alice")
    return made
