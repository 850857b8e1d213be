"""A container engine, the image built once, and everything made for the tests removed afterwards."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator

import pytest

from tests.containers.engine import BUILD_NETWORK, Containers, docker


@pytest.fixture(scope="session")
def engine() -> str:
    """The version of the engine that answers; without one the tests are skipped."""
    try:
        version = docker("info", "--format", "{{.ServerVersion}}", within=30)
    except (FileNotFoundError, AssertionError, subprocess.TimeoutExpired):
        version = ""
    if not version:
        pytest.skip("no container engine answers `docker info`")
    return version


@pytest.fixture(scope="session")
def run_id() -> str:
    """A name that nobody else uses, for images, networks and projects."""
    return f"broker-lite-test-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def image(engine: str, run_id: str) -> Iterator[str]:
    """The image, built from this checkout."""
    network = ["--network", BUILD_NETWORK] if BUILD_NETWORK else []
    docker("build", *network, "--tag", run_id, "--file", "docker/Dockerfile", ".", within=600)
    yield run_id
    docker("image", "rm", "--force", run_id, check=False)


@pytest.fixture(scope="session")
def network(engine: str, run_id: str) -> Iterator[str]:
    docker("network", "create", run_id)
    yield run_id
    docker("network", "rm", run_id, check=False)


@pytest.fixture
def containers(image: str, network: str) -> Iterator[Containers]:
    made = Containers(image, network)
    yield made
    made.end()
