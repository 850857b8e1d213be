"""The compose profile `spark`: a cluster beside the broker, and the pipeline's jobs on it.

Its image takes minutes to build (Java, and Spark with half a gigabyte), so it is built only when asked for:

    BROKER_LITE_SPARK_IMAGE=1 python -m pytest tests/containers/test_spark.py
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.engine import BUILD_NETWORK, docker, wait_for_health
from tests.containers.test_compose import Project
from tests.support.messages import send
from tests.support.sockets import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.containers, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def cluster(engine: str, run_id: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    if not os.environ.get("BROKER_LITE_SPARK_IMAGE"):
        pytest.skip("the image with Spark takes minutes to build: BROKER_LITE_SPARK_IMAGE=1 asks for it")
    network = {"network": BUILD_NETWORK} if BUILD_NETWORK else {}
    names = {"broker": f"{run_id}-broker", "hello": f"{run_id}-broker"}
    names |= dict.fromkeys(("spark-master", "spark-worker", "pipeline"), f"{run_id}-spark")
    services = {name: {"image": image, "build": network} for name, image in names.items()}
    del services["hello"]["build"]
    override = tmp_path_factory.mktemp("spark") / "override.json"
    override.write_text(json.dumps({"services": services}))
    project = Project(f"{run_id}-spark", override, free_port())
    try:
        docker("build", *_network(), "--tag", f"{run_id}-spark", "--file", "docker/spark.Dockerfile", ".", within=1500)
        project.compose("build", "broker")
        project.compose("--profile", "spark", "up", "--detach", "--no-build", "broker", "spark-worker")
        wait_for_health(project.container("broker"), "healthy")
        yield project
    finally:
        project.compose("--profile", "spark", "down", "--volumes", "--remove-orphans", "--timeout", "5")
        for image in set(names.values()):
            docker("image", "rm", "--force", image, check=False)


def _network() -> list[str]:
    return ["--network", BUILD_NETWORK] if BUILD_NETWORK else []


def job(cluster: Project, *words: str) -> str:
    return cluster.compose("--profile", "spark", "run", "--rm", "--no-deps", "pipeline", *words)


def test_a_topic_is_archived_and_audited_by_the_cluster(cluster: Project, tmp_path: Path) -> None:
    send(cluster.bootstrap, "orders", [b"%d" % number for number in range(100)])
    worker = cluster.container("spark-worker")
    said = "Successfully registered with master"
    until(lambda: said in cluster.compose("logs", "spark-worker"), within=120, what=f"worker {worker}")
    wire = ["archive", "--bootstrap", "broker:29092", "--topic", "orders", "--out", "/tables/orders"]
    assert "archived 100 records" in job(cluster, *wire)
    assert "the log is sound" in job(cluster, "audit", "--data", "/data", "--topic", "orders")
    assert "app-" in docker("exec", worker, "ls", "/tmp/spark"), "the work was done by the worker"


def test_the_image_alone_runs_a_job(cluster: Project, run_id: str) -> None:
    volume = f"{cluster.name}_data:/data:ro"
    said = docker("run", "--rm", "--network", "none", "--volume", volume, f"{run_id}-spark", "audit", "--data", "/data")
    assert "the log is sound" in said
