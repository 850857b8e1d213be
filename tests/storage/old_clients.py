"""Clients that take our broker for one of 2014 to 2016, each a small program of its own.

All speak one command line (see `programs/`): `produce` and `read`, one JSON line a record.  They are built or installed
once, in the user's cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "broker-lite"
SECONDS = 60


@dataclass(frozen=True, slots=True)
class OldClient:
    name: str
    version: str
    """Of the broker that it believes to talk to."""
    command: Callable[[], list[str]]
    codecs: tuple[str, ...]
    timestamps: bool
    """Whether messages have them in its version."""

    def __str__(self) -> str:
        return f"{self.name}-{self.version}"

    def produce(self, bootstrap: str, topic: str, count: int, codec: str) -> list[int]:
        """The offsets that it was told."""
        return [one["offset"] for one in self._run("produce", bootstrap, topic, count, codec)]  # type: ignore[misc]

    def read(self, bootstrap: str, topic: str, count: int) -> list[dict[str, object]]:
        """Offset, key, value and timestamp of as many records from the beginning."""
        return self._run("read", bootstrap, topic, count, f"group-{self}")

    def _run(self, verb: str, bootstrap: str, topic: str, count: int, last: str) -> list[dict[str, object]]:
        command = [*self.command(), verb, bootstrap, self.version, topic, str(count), last]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, f"{self} could not {verb}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return [json.loads(line) for line in done.stdout.splitlines()]


def _kafka_python() -> list[str]:
    home = CACHE / "kafka-python-2.0.2"
    if not (home / "done").exists():
        venv.create(home, with_pip=True, clear=True)
        wanted = ["kafka-python==2.0.2", "six", "lz4", "python-snappy", "xxhash"]
        _do(str(home / "bin" / "pip"), "install", "--quiet", *wanted)
        (home / "done").touch()
    return [str(home / "bin" / "python"), str(PROGRAMS / "kafka_python_old.py")]


def _sarama() -> list[str]:
    if shutil.which("go") is None:
        pytest.skip("needs go; to have it: https://go.dev/dl")
    folder = PROGRAMS / "sarama"
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.iterdir()))).hexdigest()
    program = CACHE / f"old-sarama-{digest[:16]}"
    if not program.exists():
        making = program.with_suffix(f".{os.getpid()}")
        making.parent.mkdir(parents=True, exist_ok=True)
        _do("go", "build", "-o", str(making), ".", folder=folder)
        making.rename(program)
    return [str(program)]


def _librdkafka() -> list[str]:
    return [sys.executable, str(PROGRAMS / "librdkafka_old.py")]


def _do(*command: str, folder: Path | None = None) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{' '.join(command)} failed\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


_ALL = ("none", "gzip", "snappy", "lz4")
OLD_CLIENTS = [
    *(
        OldClient("kafka-python", version, _kafka_python, _ALL, version == "0.10")
        for version in ("0.8.2", "0.9", "0.10")
    ),
    *(
        OldClient("sarama", version, _sarama, _ALL if version[:4] == "0.10" else _ALL[:3], version[:4] == "0.10")
        for version in ("0.8.2.0", "0.8.2.2", "0.9.0.0", "0.10.0.0", "0.10.1.0", "0.10.2.0")
    ),
    *(OldClient("librdkafka", version, _librdkafka, _ALL, False) for version in ("0.8.2", "0.9.0")),
    OldClient("librdkafka", "0.10.0", _librdkafka, _ALL, True),
]
