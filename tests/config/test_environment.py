from __future__ import annotations

import pytest

from broker_lite.config.broker import BROKER_KEYS
from broker_lite.config.environment import key_name, keys_from


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("NUM_PARTITIONS", "num.partitions"),
        ("LISTENER_NAME_IN__SIDE", "listener.name.in_side"),
        ("ABC___DEF", "abc-def"),
        ("A_B__C___D", "a.b_c-d"),
    ],
)
def test_underscores_are_mapped_as_the_apache_image_maps_them(variable: str, key: str) -> None:
    assert key_name(variable) == key


def test_our_prefix_wins_over_kafkas() -> None:
    found = keys_from({"KAFKA_NUM_PARTITIONS": "3", "BROKER_LITE_NUM_PARTITIONS": "4"}, BROKER_KEYS)
    assert found == {"num.partitions": ("BROKER_LITE_NUM_PARTITIONS", "4")}


def test_our_own_keys_need_no_second_prefix() -> None:
    found = keys_from({"BROKER_LITE_STRICT": "true", "BROKER_LITE_DURABILITY": "fsync"}, BROKER_KEYS)
    assert set(found) == {"broker.lite.strict", "broker.lite.durability"}


@pytest.mark.parametrize(
    "variable",
    [
        "KAFKA_OPTS", "KAFKA_HEAP_OPTS", "KAFKA_JMX_OPTS", "KAFKA_JMX_PORT", "KAFKA_LOG4J_LOGGERS", "KAFKA_LOG4J_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_GC_LOG_OPTS", "KAFKA_LOG4J_ROOT_LOGLEVEL", "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_VERSION", "CLUSTER_ID", "BROKER_LITE_BOOTSTRAP", "BROKER_LITE_COMMAND_CONFIG", "PATH",
        "KAFKA_PORT_9092_TCP", "KAFKA_SERVICE_HOST",
    ],
)  # fmt: skip
def test_variables_for_other_things_are_not_keys(variable: str) -> None:
    assert keys_from({variable: "x"}, BROKER_KEYS) == {}
