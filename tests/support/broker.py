"""A broker as a process: started, stopped, killed and started again, as an operator would.

What is always true: the port is chosen by the first start and kept by every later one, so a client that knew the broker
finds it again; the data folder is kept; what the process said on stdout and stderr lies in files, so that a talkative
broker never blocks on a full pipe and a failed test can show it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

START_WITHIN = 20.0
"""Seconds until the ready file must be there: a start takes a fraction of one, the rest is for a busy machine."""
STOP_WITHIN = 5.0
"""The promise made to users: SIGTERM is a clean stop in less than this."""


class BrokerFailed(AssertionError):
    """The process did not do what was asked; the message carries what it said."""


class BrokerProcess:
    """One `broker-lite serve` on a data folder of its own.

    `folder` holds the data, the ready file and the output.  `arguments` are added to the command line, `environment`
    to the environment; `command` is what starts the program (another Python, an installed script).
    """

    def __init__(
        self,
        folder: Path,
        arguments: Sequence[str] = (),
        *,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] = (sys.executable, "-m", "broker_lite"),
        listen: str = "127.0.0.1:0",
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.arguments = list(arguments)
        self.environment = dict(environment or {})
        self.command = list(command)
        self.listen = listen
        self.process: subprocess.Popen[bytes] | None = None
        self.addresses: dict[str, str] = {}
        """Listener name to HOST:PORT, as bound."""

    def __enter__(self) -> BrokerProcess:
        return self if self.alive else self.start()

    def __exit__(self, *_: object) -> None:
        if self.alive:
            self.kill()

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None, "the broker was never started"
        return self.process.pid

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of the first listener."""
        return next(iter(self.addresses.values()))

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    @property
    def stdout(self) -> str:
        return self._said("stdout")

    @property
    def stderr(self) -> str:
        return self._said("stderr")

    def start(self) -> BrokerProcess:
        """Start it and return when it serves."""
        assert not self.alive, f"the broker runs already, pid {self.pid}"
        self.folder.mkdir(parents=True, exist_ok=True)
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        self.spawn(ready)
        assert self.process is not None
        deadline = time.monotonic() + START_WITHIN
        while not self._is_ready(ready):
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerFailed(f"not ready within {START_WITHIN:.0f} s\n{self.story()}")
            try:
                code = self.process.wait(0.01)
            except subprocess.TimeoutExpired:
                continue
            raise BrokerFailed(f"exited with {code} before it was ready\n{self.story()}")
        return self

    def spawn(self, ready: Path) -> subprocess.Popen[bytes]:
        """Start the process without waiting for anything (`start` waits)."""
        listen = ["--listen", self.listen] if self.listen else []
        places = ["--data", str(self.data), "--ready-file", str(ready)]
        with (self.folder / "stdout").open("ab") as out, (self.folder / "stderr").open("ab") as err:
            self.process = subprocess.Popen(
                [*self.command, "serve", *listen, *places, *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, **self.environment},
            )
        return self.process

    def stop(self, within: float = STOP_WITHIN) -> None:
        """SIGTERM; it must end with 0 in time."""
        assert self.process is not None, "the broker was never started"
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(f"still there {within} s after SIGTERM\n{self.story()}") from None
        if code != 0:
            raise BrokerFailed(f"exited with {code} after SIGTERM\n{self.story()}")

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nobody is told."""
        assert self.process is not None, "the broker was never started"
        self.process.kill()
        self.process.wait()

    def restart(self, *, kill: bool = False) -> BrokerProcess:
        """Stop (or kill) it if it runs, and start it on the same data and the same port."""
        if self.alive:
            self.kill() if kill else self.stop()
        return self.start()

    def story(self) -> str:
        """What it said, for the reader of a failed test."""
        return f"--- broker stdout\n{self.stdout[-4000:]}\n--- broker stderr\n{self.stderr[-8000:]}"

    def _said(self, stream: str) -> str:
        file = self.folder / stream
        return file.read_text(errors="replace") if file.exists() else ""

    def _is_ready(self, ready: Path) -> bool:
        try:
            told = json.loads(ready.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return False
        self.addresses = dict(told["listeners"])
        if self.listen.endswith(":0"):
            self.listen = f"{self.listen.removesuffix('0')}{self.port}"
        return True
