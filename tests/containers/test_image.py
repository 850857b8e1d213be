"""The image by itself: who runs in it, what it may write, when it is healthy, how it stops."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from tests.containers.engine import Containers, docker, inspect, logs, wait_for_health
from tests.support.messages import read, send
from tests.support.sockets import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]


def test_the_broker_is_not_root_and_its_data_folder_is_its_own(image: str) -> None:
    said = docker("run", "--rm", "--network", "none", "--entrypoint", "sh", image, "-c", "id -u; stat -c %u:%g /data")
    assert said.split() == ["10092", "10092:10092"]


def test_the_image_adds_little_to_its_base_and_no_installer(image: str) -> None:
    sizes = docker("history", "--no-trunc", "--human=false", "--format", "{{.Size}} {{.CreatedBy}}", image).splitlines()
    ours = sum(int(line.split()[0]) for line in sizes if "/opt/broker-lite" in line)
    assert 0 < ours < 80 * 2**20
    assert (
        docker("run", "--rm", "--network", "none", "--entrypoint", "ls", image, "/opt/broker-lite/bin").count("pip")
        == 0
    )


def test_the_image_has_what_tls_and_metrics_need(image: str) -> None:
    modules = "import cryptography, jwt, prometheus_client"
    docker("run", "--rm", "--network", "none", "--entrypoint", "python", image, "-c", modules)


def test_a_client_on_the_host_is_served_from_a_read_only_root_without_capabilities(containers: Containers) -> None:
    port = free_port()
    broker = containers.run(containers.volume(), port)
    wait_for_health(broker, "healthy")
    send(f"localhost:{port}", "greetings", [b"hello", b"from the host"])
    assert sorted(read(f"localhost:{port}", "greetings")) == [b"from the host", b"hello"]
    facts = inspect(broker, "{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.Config.User}}")
    assert facts == "true [ALL] 10092:10092"
    status = docker("exec", broker, "cat", "/proc/1/status")
    assert "CapEff:\t0000000000000000" in status


def test_a_container_is_unhealthy_until_the_broker_is_ready(containers: Containers) -> None:
    port = free_port()
    gate = "until [ -e /data/open ]; do sleep 0.1; done; exec broker-lite serve"
    options = ["--health-start-period", "1ms", "--health-retries", "1", "--entrypoint", "sh"]
    broker = containers.run(containers.volume(), port, *options, command=["-c", gate])
    wait_for_health(broker, "unhealthy")
    docker("exec", broker, "touch", "/data/open")
    wait_for_health(broker, "healthy")
    assert logs(broker).strip(), "a broker that is ready says so"


def test_docker_stop_is_a_clean_stop_under_load_that_loses_nothing(containers: Containers) -> None:
    port, volume = free_port(), containers.volume()
    broker = containers.run(volume, port)
    wait_for_health(broker, "healthy")
    acknowledged: set[bytes] = set()
    stop = threading.Event()

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged.add(message.value() or b"")

    def load() -> None:
        producer = Producer({"bootstrap.servers": f"localhost:{port}", "acks": "all", "linger.ms": 1})
        number = 0
        while not stop.is_set():
            producer.produce("kept", b"%d" % number, on_delivery=delivered)
            number += 1
            producer.poll(0.001)
        producer.purge()
        producer.flush(5)

    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(load)
        try:
            until(lambda: len(acknowledged) > 500, within=60, what="500 acknowledged records")
            docker("stop", "--time", "10", broker)
        finally:
            stop.set()
        loading.result()
    assert inspect(broker, "{{.State.ExitCode}} {{.State.OOMKilled}}") == "0 false", logs(broker)
    docker("start", broker)
    wait_for_health(broker, "healthy")
    assert acknowledged <= set(read(f"localhost:{port}", "kept"))


def test_a_container_without_a_command_line_reads_the_settings_of_the_apache_image(containers: Containers) -> None:
    port = free_port()
    options = ["--env", "KAFKA_NUM_PARTITIONS=3", "--env", "KAFKA_PROCESS_ROLES=broker,controller"]
    broker = containers.run(containers.volume(), port, *options)
    wait_for_health(broker, "healthy")
    send(f"localhost:{port}", "three", [b"one"])
    listed = AdminClient({"bootstrap.servers": f"localhost:{port}"}).list_topics("three", 10)
    assert len(listed.topics["three"].partitions) == 3
