from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.coordinator.playbook import Playbook


@pytest.fixture
def group() -> Iterator[Playbook]:
    book = Playbook()
    yield book
    assert book.heard == [], "heard, but not in the script"
