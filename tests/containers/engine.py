"""Plain `docker`, called as a user would call it, with whatever engine answers.

Ports are published on 127.0.0.1 and networks are made for the test: the default bridge is something an engine may lack.
BUILD_NETWORK=host gives builds the host's network, where the engine's own cannot reach the package index.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
BUILD_NETWORK = os.environ.get("BUILD_NETWORK", "")


def docker(
    *arguments: str, check: bool = True, within: float = 300, environment: Mapping[str, str] | None = None
) -> str:
    """Run a docker command; returns what it printed, or fails showing it."""
    result = subprocess.run(
        ["docker", *arguments],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )
    if check and result.returncode != 0:
        raise AssertionError(f"docker {' '.join(arguments)}: {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result.stdout.strip()


def inspect(container: str, template: str) -> str:
    return docker("inspect", "--format", template, container)


def logs(container: str) -> str:
    result = subprocess.run(["docker", "logs", container], capture_output=True, text=True, check=False)
    return result.stdout + result.stderr


def health(container: str) -> str:
    """starting, healthy or unhealthy."""
    return inspect(container, "{{.State.Health.Status}}")


def wait_for_health(container: str, wanted: str) -> None:
    try:
        until(lambda: health(container) == wanted, within=60, what=f"{container} to be {wanted}")
    except AssertionError as late:
        raise AssertionError(f"{late}\n{inspect(container, '{{json .State}}')}\n{logs(container)}") from None


@dataclass
class Containers:
    """Starts containers of the image, hardened, and removes what it made."""

    image: str
    network: str
    names: list[str] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)

    def volume(self) -> str:
        self.volumes.append(docker("volume", "create"))
        return self.volumes[-1]

    def run(self, volume: str, port: int, *options: str, command: Sequence[str] = ()) -> str:
        """Start a broker whose clients reach it at localhost:port; returns the container's id."""
        hardened = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        place = ["--network", self.network, "--publish", f"127.0.0.1:{port}:9092", "--volume", f"{volume}:/data"]
        told = ["--env", f"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:{port}", "--health-interval", "1s"]
        name = docker("run", "--detach", *hardened, *place, *told, *options, self.image, *command)
        self.names.append(name)
        return name

    def end(self) -> None:
        for name in self.names:
            docker("rm", "--force", "--volumes", name, check=False)
        for volume in self.volumes:
            docker("volume", "rm", volume, check=False)
