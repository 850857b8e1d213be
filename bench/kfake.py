"""kfake, franz-go's broker in memory, as a third contender where Go is installed: fast, and with nothing on disk."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench.measures import KFAKE
from bench.peer import end, free_port, wait_for_port

PROGRAM = Path(__file__).parent / "programs" / "kfake"
BUILT = Path(__file__).parents[1] / ".cache" / "bench" / "kfake"


class Kfake:
    name = KFAKE

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def can_run() -> bool:
        return shutil.which("go") is not None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if not BUILT.exists():
            BUILT.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["go", "build", "-o", str(BUILT), "."], cwd=PROGRAM, check=True)

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(BUILT), str(self.port)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        wait_for_port(self.port, self.process)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            end(self.process, kill=False)
