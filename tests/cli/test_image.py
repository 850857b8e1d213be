"""The environments of the Apache image's examples: TLS, SASL, and addresses that are only advertised."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.cli.image import OUR_LISTENERS, as_in_the_image
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


@pytest.mark.parametrize("before", [{}, {"KAFKA_LISTENERS": OUR_LISTENERS}], ids=["alone", "in our image"])
def test_listeners_that_are_only_advertised_are_opened_at_those_ports(before: dict[str, str]) -> None:
    told = {
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092,V6://[::1]:9094",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT,V6:PLAINTEXT",
    }
    options, _ = options_from(parser().parse_args([]), before | told)
    assert [(one.name, one.host, one.port) for one in options.listeners] == [
        ("PLAINTEXT", "", 29092),
        ("PLAINTEXT_HOST", "", 9092),
        ("V6", "", 9094),
    ]


@pytest.mark.parametrize(
    "told",
    [
        {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:29092"},
        {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://a:1,HOST://b:2", "KAFKA_LISTENERS": "PLAINTEXT://:1,HOST://:3"},
        {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://a:1,HOST://b:2", "BROKER_LITE_LISTENERS": "HOST://:3"},
    ],
)
def test_who_says_where_to_listen_is_obeyed_and_one_plain_address_may_be_published_under_any_port(
    told: dict[str, str],
) -> None:
    assert as_in_the_image(told) == told


def test_what_our_image_says_of_listeners_is_known() -> None:
    dockerfile = Path(__file__).parents[2] / "docker" / "Dockerfile"
    assert f"KAFKA_LISTENERS={OUR_LISTENERS} " in dockerfile.read_text()
