"""The admin clients of confluent-kafka and kafka-python hear the same from Apache Kafka and from us."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.broker import BrokerProcess
from tests.support.kafka_server import KafkaServer
from tests.tools.python_admins import heard

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def test_both_libraries_hear_the_same_from_both_brokers(tmp_path: Path) -> None:
    arguments = [part for pair in SETTINGS.items() for part in ("--set", "=".join(pair))]
    with KafkaServer(tmp_path / "kafka", SETTINGS) as kafka:
        cluster = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=30).cluster_id
        with BrokerProcess(tmp_path / "ours", [*arguments, "--cluster-id", str(cluster)]) as ours:
            at_ours = heard(ours.bootstrap)
        at_kafka = heard(kafka.bootstrap, at_ours)
    assert len(at_ours) > 50
    different = [f"{call}\n  Kafka {at_kafka[call]}\n  ours  {at_ours[call]}" for call in at_ours
                 if at_kafka[call] != at_ours[call]]  # fmt: skip
    assert not different, "\n".join(different)
