"""The parts of the documentation that are declared in code, and written from there.

    python -m tests.support.generated      (make docs)

A page marks the place with `<!-- begin: name -->` and `<!-- end: name -->`; what stands between is replaced.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from broker_lite.apis import registry
from broker_lite.config.broker import BROKER_KEYS
from broker_lite.config.topic import TOPIC_KEYS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "configuration.md"]
_PLACE = re.compile(r"(<!-- begin: (\w+) -->\n).*?(<!-- end: \2 -->)", re.DOTALL)
MOST_USED = (
    "listeners",
    "advertised.listeners",
    "log.dirs",
    "broker.lite.durability",
    "num.partitions",
    "auto.create.topics.enable",
    "message.max.bytes",
    "log.segment.bytes",
)

SASL_HANDSHAKE = 17
KNOWN_BY_NAME = {
    21: "deleting records",
    32: "describing configurations",
    44: "changing configurations",
    29: "ACLs",
    48: "quotas",
    68: "the consumer groups of KIP-848",
    76: "share groups",
    88: "streams groups",
}


def render(page: Path) -> str:
    """The page as it should be."""
    return _PLACE.sub(lambda place: place[1] + GENERATORS[place[2]]() + place[3], page.read_text())


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def apis() -> str:
    """One row for each served key: what it is for, from the first line of its file, and what it leaves out."""
    registry.load()
    rows = []
    for served in registry.REGISTRY.table():
        path = next((ROOT / "broker_lite" / "apis").glob(f"k{served.key:02}_*.py"))
        about = ast.get_docstring(ast.parse(path.read_text())) or ""
        name, _, sentence = about.partition("\n")[0].partition(": ")
        assert name == served.name, f"{path.name} begins with {name!r} and serves {served.name}"
        first, last = served.versions[0], served.versions[-1]
        versions = str(first) if first == last else f"{first}-{last}"
        rows.append((str(served.key), name, versions, sentence.rstrip("."), not_done(about)))
    return table(("key", "API", "versions", "what it does", "not done"), rows)


def limits() -> str:
    """What a user of Kafka might look for in vain; each line is there as long as it is true."""
    registry.load()
    served = {api.key for api in registry.REGISTRY.table()}
    missing = [what for key, what in KNOWN_BY_NAME.items() if key not in served]
    lines = ["**Replicate.** It is one broker and says so in every answer: one copy of each partition, on one disk."]
    lines.append(
        "**Mistrust, unless told to.** Whoever reaches the port may do everything; so it listens on 127.0.0.1."
    )
    if SASL_HANDSHAKE not in served:
        lines.append(
            "**Ask who you are.** There is no TLS and no SASL: keep it on your machine or inside your network."
        )
    if not TOPIC_KEYS["retention.ms"].honoured:
        lines.append("**Delete old segments.** What was written stays until its topic is deleted.")
    if not TOPIC_KEYS["delete.retention.ms"].honoured:
        lines.append("**Compact.** Compacted topics take only records with a key, and keep all of them.")
    if missing:
        lines.append(f"**Serve a key that is not in the table.** The best known of these: {', '.join(missing)}.")
    return "\n" + "".join(f"- {line}\n" for line in lines) + "\n"


def not_done(about: str) -> str:
    """The lines under *Not done* of an API's docstring, as one."""
    _, _, block = about.partition("\nNot done\n")
    lines = re.match(r"(?:    .*\n?)*", block)
    return "; ".join(map(str.strip, lines[0].splitlines())) if lines else ""


def settings() -> str:
    """The few keys that most people touch."""
    rows = [
        (_code(key.name), _code(key.format(key.default)), key.doc) for key in map(BROKER_KEYS.__getitem__, MOST_USED)
    ]
    return table(("key", "default", "meaning"), rows)


def keys() -> str:
    """Every key, as the command prints them."""
    command = [sys.executable, "-m", "broker_lite", "settings", "--markdown"]
    return "\n" + subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout + "\n"


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""


GENERATORS: dict[str, Callable[[], str]] = {"apis": apis, "limits": limits, "settings": settings, "keys": keys}

if __name__ == "__main__":
    for page in PAGES:
        page.write_text(render(page))
        print(f"wrote {page.relative_to(ROOT)}")
