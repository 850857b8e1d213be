"""The table client x scenario, as Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from tests.clients.scenarios import SCENARIOS


class Outcome(Enum):
    PASS = "pass"
    NOT_OFFERED = "not offered by the client"
    NOT_SERVED = "not served yet"
    FAILS = "fails"


MARKS = {Outcome.PASS: "pass", Outcome.NOT_OFFERED: "–", Outcome.NOT_SERVED: "not yet", Outcome.FAILS: "**fails**"}


@dataclass(slots=True)
class Results:
    broker: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    cells: dict[tuple[str, str], tuple[Outcome, str]] = field(default_factory=dict)

    def note(self, client: str, scenario: str, outcome: Outcome, why: str = "") -> None:
        self.cells[client, scenario] = outcome, why

    def render(self) -> str:
        clients = list(dict.fromkeys(client for client, _ in self.cells))
        common = {scenario.name: place for place, scenario in enumerate(SCENARIOS)}
        scenarios = sorted({s: None for _, s in self.cells}, key=lambda name: common.get(name, len(common)))
        lines = [
            "# Clients",
            "",
            f"Real clients of other projects, one common list of scenarios, run against {self.broker}. "
            "Written by `make matrix`; what a scenario does is in "
            "`tests/clients/scenarios.py`.",
            "",
            "- pass: it works, and the bytes that came back are the bytes that were written",
            "- –: the client has no such function, or one that does not work with Apache Kafka either",
            "- not yet: the broker does not serve an API the scenario needs, and does not claim to",
            "- **fails**: see the reasons below the table",
            "",
            "| scenario | " + " | ".join(f"{name} {self.versions.get(name, '')}".strip() for name in clients) + " |",
            "|---|" + "---|" * len(clients),
        ]
        for scenario in scenarios:
            marks = [MARKS[self.cells[c, scenario][0]] if (c, scenario) in self.cells else "" for c in clients]
            lines.append(f"| {scenario} | " + " | ".join(marks) + " |")
        failed = [(c, s, why) for (c, s), (outcome, why) in self.cells.items() if outcome is Outcome.FAILS]
        if failed:
            lines += ["", "## Failures", ""]
            lines += [f"- {client}, {scenario}: {why}" for client, scenario, why in failed]
        return "\n".join(lines) + "\n"


def write_table(path: Path, results: Results) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(results.render())
