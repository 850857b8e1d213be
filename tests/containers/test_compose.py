"""compose.yaml as it is: up, used from the host and from another service, down, and up again with its data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.containers.engine import BUILD_NETWORK, docker, inspect, wait_for_health
from tests.support.messages import read, send
from tests.support.sockets import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]


@dataclass
class Project:
    """One compose project; the override only gives it names and a port of its own."""

    name: str
    override: Path
    port: int

    def compose(self, *arguments: str) -> str:
        files = ["--file", "compose.yaml", "--file", str(self.override)]
        return docker(
            "compose", "--project-name", self.name, *files, *arguments, environment={"HOST_PORT": str(self.port)}
        )

    def up(self, how: str = "--build") -> None:
        self.compose("up", "--detach", how)
        wait_for_health(self.container("broker"), "healthy")

    def container(self, service: str) -> str:
        return self.compose("ps", "--all", "--quiet", service)

    @property
    def bootstrap(self) -> str:
        return f"localhost:{self.port}"


@pytest.fixture(scope="module")
def project(engine: str, run_id: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    network = {"network": BUILD_NETWORK} if BUILD_NETWORK else {}
    image = f"{run_id}-compose"
    services = {"broker": {"image": image, "build": network}, "hello": {"image": image}}
    override = tmp_path_factory.mktemp("compose") / "override.json"
    override.write_text(json.dumps({"services": services}))
    project = Project(run_id, override, free_port())
    project.up()
    yield project
    project.compose("down", "--volumes", "--remove-orphans", "--timeout", "5")
    docker("image", "rm", "--force", image, check=False)


def test_a_client_on_the_host_is_served(project: Project) -> None:
    send(project.bootstrap, "from-the-host", [b"a", b"b"])
    assert sorted(read(project.bootstrap, "from-the-host")) == [b"a", b"b"]


def test_a_client_in_another_service_is_served(project: Project) -> None:
    hello = project.container("hello")
    until(lambda: inspect(hello, "{{.State.Status}}") == "exited", within=60, what="the other service to end")
    said = project.compose("logs", "--no-log-prefix", "hello")
    assert inspect(hello, "{{.State.ExitCode}}") == "0", said
    assert "hello from another service" in said


def test_the_broker_of_the_project_has_no_privileges(project: Project) -> None:
    facts = "{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}} {{.Config.User}}"
    assert inspect(project.container("broker"), facts) == "true [ALL] [no-new-privileges:true] 10092:10092"


def test_the_published_port_is_for_this_machine_alone(project: Project) -> None:
    bound = inspect(project.container("broker"), "{{json .NetworkSettings.Ports}}")
    assert json.loads(bound)["9092/tcp"] == [{"HostIp": "127.0.0.1", "HostPort": str(project.port)}]


def test_the_data_is_kept_across_down_and_up(project: Project) -> None:
    send(project.bootstrap, "kept", [b"%d" % n for n in range(100)])
    before = project.container("broker")
    project.compose("down", "--timeout", "5")
    project.up("--no-build")
    assert project.container("broker") != before
    assert sorted(read(project.bootstrap, "kept"), key=int) == [b"%d" % n for n in range(100)]
