"""Each client runs each scenario against one broker; what either side does not have is expected, and said."""

from __future__ import annotations

import pytest

from tests.clients.conftest import Matrix
from tests.clients.roster import taking_part
from tests.clients.scenarios import SCENARIOS, Scenario

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name.replace(" ", "-"))
@pytest.mark.parametrize("client", [entry.name for entry in taking_part()])
def test_a_client_does(client: str, scenario: Scenario, matrix: Matrix) -> None:
    matrix.run(client, scenario)
