"""The environments of the Apache image's examples with TLS and with SASL."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.cli.image import as_in_the_image
from broker_lite.cli.serve import options_from, parser
from broker_lite.config import security as keys
from broker_lite.config.environment import key_name, variable_of
from broker_lite.errors import StartRefused
from broker_lite.server.protection import users_of

LOGINS = """
// who may log in {
KafkaServer {
    org.apache.kafka.common.security.plain.PlainLoginModule required
    username="admin"  /* between brokers */
    password="admin-secret"
    user_admin="admin-secret"
    user_alice="a}//b;";
};
outside.KafkaServer {
    org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="builder";
};
"""


def test_stores_and_their_passwords_are_files_among_the_secrets(tmp_path: Path) -> None:
    (tmp_path / "store_creds").write_text("changeit\n")
    (tmp_path / "key_creds").write_text("other")
    seen = as_in_the_image(
        {
            "KAFKA_LISTENERS": "SSL://:9093",
            "KAFKA_SSL_KEYSTORE_FILENAME": "kafka01.keystore.jks",
            "KAFKA_SSL_KEYSTORE_CREDENTIALS": "store_creds",
            "KAFKA_SSL_KEY_CREDENTIALS": "key_creds",
            "KAFKA_SSL_TRUSTSTORE_FILENAME": "kafka.truststore.jks",
            "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "store_creds",
            "KAFKA_SSL_TRUSTSTORE_PASSWORD": "said by itself",
        },
        tmp_path,
    )
    assert seen == {
        "KAFKA_LISTENERS": "SSL://:9093",
        "KAFKA_SSL_KEYSTORE_LOCATION": str(tmp_path / "kafka01.keystore.jks"),
        "KAFKA_SSL_KEYSTORE_PASSWORD": "changeit",
        "KAFKA_SSL_KEY_PASSWORD": "other",
        "KAFKA_SSL_TRUSTSTORE_LOCATION": str(tmp_path / "kafka.truststore.jks"),
        "KAFKA_SSL_TRUSTSTORE_PASSWORD": "said by itself",
    }


def test_a_password_that_is_not_there_is_told_of() -> None:
    with pytest.raises(StartRefused, match=r"KAFKA_SSL_KEY_CREDENTIALS: /etc/kafka/secrets/none: No such file"):
        as_in_the_image({"KAFKA_SSL_KEY_CREDENTIALS": "none"})


def test_the_users_of_a_jaas_file_are_those_of_the_listeners(tmp_path: Path) -> None:
    (tmp_path / "jaas.conf").write_text(LOGINS)
    environment = {
        "KAFKA_LISTENERS": "CONTROLLER://:29093,SASL_PLAINTEXT-HOST://:9094,OUTSIDE://:19094",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "SASL_PLAINTEXT-HOST:SASL_PLAINTEXT,OUTSIDE:SASL_PLAINTEXT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_OPTS": f"-Xmx1g -Djava.security.auth.login.config={tmp_path}/jaas.conf",
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
    }
    options, notes = options_from(parser().parse_args([]), environment)
    assert users_of(options.settings, "SASL_PLAINTEXT-HOST") == {"admin": "admin-secret", "alice": "a}//b;"}
    assert users_of(options.settings, "OUTSIDE") == {"bob": "builder"}
    assert [*options.settings.get(keys.SASL_ENABLED_MECHANISMS)] == ["PLAIN"]
    assert notes == []


def test_a_jaas_file_is_not_looked_for_where_nobody_logs_in() -> None:
    environment = {"KAFKA_OPTS": "-Djava.security.auth.login.config=/not/there", "KAFKA_LISTENERS": "PLAINTEXT://:9092"}
    assert as_in_the_image(environment) == environment
    with pytest.raises(StartRefused, match="KAFKA_OPTS: /not/there: No such file"):
        as_in_the_image({**environment, "KAFKA_LISTENERS": "SASL_PLAINTEXT://:9092"})


@pytest.mark.parametrize("key", ["num.partitions", "listener.name.sasl_plaintext-host.plain.sasl.jaas.config"])
def test_a_variable_spells_its_key(key: str) -> None:
    assert key_name(variable_of(key).removeprefix("KAFKA_")) == key
