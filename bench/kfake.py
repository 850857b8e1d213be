"""kfake, franz-go's broker in memory, as a third contender where Go is installed: fast, and with nothing on disk."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench.measures import KFAKE
from bench.peer import Contender

PROGRAM = Path(__file__).parent / "programs" / "kfake"
BUILT = Path(__file__).parents[1] / ".cache" / "bench" / "kfake"


class Kfake(Contender):
    name = KFAKE

    @staticmethod
    def can_run() -> bool:
        return shutil.which("go") is not None

    def command(self) -> list[str]:
        return [str(BUILT), str(self.port)]

    def prepare(self) -> None:
        super().prepare()
        if not BUILT.exists():
            BUILT.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["go", "build", "-o", str(BUILT), "."], cwd=PROGRAM, check=True)
