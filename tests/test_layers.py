"""The house as a test: imports point down, quiet rooms do not wait or see files or clocks, asyncio is in two files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import broker_lite

HOUSE = Path(broker_lite.__file__).parent
BELOW = {  # every room may use the rooms right below it, what is below those, and the porch
    "__main__": ["cli"],
    "cli": ["server", "client", "pipeline"],
    "pipeline": ["client", "log"],
    "server": ["apis"],
    "apis": ["broker"],
    "broker": ["partition", "coordinator", "security"],
    "partition": ["log"],
    "coordinator": ["records"],
    "security": [],
    "log": ["records"],
    "client": ["records"],
    "records": ["wire"],
    "wire": [],
}
PORCH = {"errors", "clock", "crc", "ids", "config", "logs", "shapes", "__init__"}  # uses nothing of ours but itself
WAITING, FILES, TIME = {"asyncio", "anyio", "threading", "socket"}, {"os", "pathlib", "shutil", "mmap"}, {"time"}
NEVER = {
    "wire": WAITING | FILES | TIME,
    "records": WAITING | FILES | TIME,
    "coordinator": WAITING | FILES | TIME,
    "security": WAITING | FILES | TIME,
    "partition": (WAITING | FILES | TIME) - {"pathlib"},  # it is told a path and does not look at it
    "log": (WAITING | TIME) - {"threading"},  # threads that sync hold its files too, so leases have a lock
}
ONLY_ASYNCIO = {Path("server/connection.py"), Path("server/entrance.py")}

SOURCES = sorted(path.relative_to(HOUSE) for path in HOUSE.rglob("*.py"))


def all_below(room: str) -> set[str]:
    return {room, *PORCH}.union(*(all_below(below) for below in BELOW[room])) if room in BELOW else PORCH


def imports(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse((HOUSE / source).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source} has a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_imports_point_down(source: Path) -> None:
    room = source.parts[0].removesuffix(".py")
    assert room in BELOW or room in PORCH, f"{room} is not on the plan of the house"
    for name in imports(source):
        top, _, rest = name.partition(".")
        if top == "broker_lite":
            assert rest.startswith("__version__") or rest.partition(".")[0] in all_below(room), f"{room} uses {name}"
        assert top not in NEVER.get(room, ()), f"{room} is a room without {top}"
        assert top != "asyncio" or source in ONLY_ASYNCIO, f"{source} uses asyncio"
