"""The README as a script: its code blocks, where each of them stands, and a port that is not everybody's.

The README says 9092 because users want to read that.  A test that runs its commands says `at(port)`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    line: int
    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The lines that a shell would run."""
        if self.language == "console":
            return [line[2:] for line in self.text.splitlines() if line.startswith("$ ")]
        return [line for line in self.text.splitlines() if line.strip()] if self.language == "sh" else []

    def at(self, port: int) -> str:
        return self.text.replace(":9092", f":{port}")


def blocks(page: Path = README) -> list[Block]:
    text = page.read_text()
    return [
        Block(text.count("\n", 0, found.start()) + 1, found["language"], found["text"])
        for found in _BLOCK.finditer(text)
    ]


def fresh_copy(target: Path) -> Path:
    """This checkout as a clone would have it: what git tracks or would track, and nothing that was built."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target
