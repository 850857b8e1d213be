"""`docker compose up`, typed as the README has it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.containers.engine import BUILD_NETWORK, docker
from tests.support.messages import read, send
from tests.support.readme import ROOT, blocks
from tests.support.sockets import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]


@pytest.mark.usefixtures("engine")
def test_the_first_minute_with_docker(run_id: str, tmp_path: Path) -> None:
    commands = [command for block in blocks() for command in block.commands if command.startswith("docker")]
    assert commands == ["docker compose up"]
    port, image = free_port(), f"{run_id}-readme"
    override = tmp_path / "override.json"
    network = {"network": BUILD_NETWORK} if BUILD_NETWORK else {}
    services = {"broker": {"image": image, "build": network}, "hello": {"image": image}}
    override.write_text(json.dumps({"services": services}))
    names = {"COMPOSE_PROJECT_NAME": image, "COMPOSE_FILE": f"compose.yaml:{override}"}
    environment = {**names, "HOST_PORT": str(port)}
    said = tmp_path / "said"
    with said.open("wb") as out:
        up = subprocess.Popen(
            commands[0].split(),
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until(
            lambda: "hello from another service" in said.read_text() or up.poll() is not None,
            within=300,
            what="the other service's message",
        )
        assert up.poll() is None, said.read_text()
        send(f"localhost:{port}", "first", [b"hello from the host"])
        assert read(f"localhost:{port}", "first") == [b"hello from the host"]
        os.killpg(up.pid, signal.SIGINT)  # as Ctrl-C does: to everybody in the foreground
        up.wait(60)
    finally:
        if up.poll() is None:
            os.killpg(up.pid, signal.SIGKILL)
            up.wait()
        docker("compose", "down", "--volumes", "--timeout", "5", check=False, environment=environment)
        docker("image", "rm", "--force", image, check=False)
