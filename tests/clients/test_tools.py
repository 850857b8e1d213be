"""What Kafka's own tools print about this broker, where it is more than pass or fail."""

from __future__ import annotations

import re
from typing import cast

import pytest

from tests.clients.conftest import Matrix
from tests.clients.console import ConsoleTools

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]


def test_broker_api_versions_shows_every_key_that_is_served_and_understands_all_of_them(matrix: Matrix) -> None:
    tools = cast(ConsoleTools, matrix.client("java-tools"))
    said = tools.api_versions()
    ranges = {int(key): line for key, line in re.findall(r"^\t\w+\((\d+)\): (.*?),?$", said, re.MULTILINE)}
    shown = {key for key, line in ranges.items() if "UNSUPPORTED" not in line}
    assert shown == {key for key in matrix.served if key in ranges}
    unusable = [key for key in shown if "usable" not in ranges[key]]
    assert not unusable, f"the Java client of the same version has no common version for keys {unusable}"
    assert not matrix.served - ranges.keys(), f"keys that Kafka does not know: {matrix.served - ranges.keys()}"
