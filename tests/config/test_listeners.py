from __future__ import annotations

import pytest

from broker_lite.config.listeners import Listener, advertised, named, opened, parse_listener
from broker_lite.config.sources import Settings, Source
from broker_lite.errors import StartRefused


def settings(**keys: str) -> Settings:
    return Settings({Source.FILE: {name.replace("_", "."): value for name, value in keys.items()}})


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("PLAINTEXT://localhost:9092", Listener("PLAINTEXT", "localhost", 9092)),
        ("localhost:9092", Listener("PLAINTEXT", "localhost", 9092)),
        ("127.0.0.1:0", Listener("PLAINTEXT", "127.0.0.1", 0)),
        ("PLAINTEXT://:9092", Listener("PLAINTEXT", "", 9092)),
        (":9092", Listener("PLAINTEXT", "", 9092)),
        ("external://[::1]:19092", Listener("EXTERNAL", "::1", 19092)),
        ("[::]:9092", Listener("PLAINTEXT", "::", 9092)),
        ("IN_SIDE://broker:29092", Listener("IN_SIDE", "broker", 29092)),
    ],
)
def test_an_address_is_understood(text: str, listener: Listener) -> None:
    assert parse_listener(text) == listener
    assert parse_listener(str(listener)) == listener


@pytest.mark.parametrize(
    "text", ["", "localhost", "localhost:", "localhost:x", "localhost:70000", "::1:9092", "A://b", "//:1"]
)
def test_what_is_not_an_address_is_refused(text: str) -> None:
    with pytest.raises(StartRefused, match="is not a listener"):
        parse_listener(text)


def test_the_default_is_this_machine_only() -> None:
    assert opened(Settings()) == [Listener("PLAINTEXT", "127.0.0.1", 9092)]


def test_unnamed_addresses_get_names_of_their_own() -> None:
    assert named(["127.0.0.1:1", "127.0.0.1:2", "X://127.0.0.1:3"]) == [
        "PLAINTEXT://127.0.0.1:1",
        "PLAINTEXT_2://127.0.0.1:2",
        "X://127.0.0.1:3",
    ]


def test_a_controllers_listener_is_neither_opened_nor_advertised() -> None:
    kafkas_own_file = settings(
        listeners="PLAINTEXT://:9092,CONTROLLER://:9093",
        advertised_listeners="PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        controller_listener_names="CONTROLLER",
        listener_security_protocol_map="CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
    )
    listeners = opened(kafkas_own_file)
    assert listeners == [Listener("PLAINTEXT", "", 9092)]
    assert advertised(kafkas_own_file, listeners) == {"PLAINTEXT": Listener("PLAINTEXT", "localhost", 9092)}


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"listeners": "A://:1,a://:2"}, "two listeners are called A"),
        ({"listener_security_protocol_map": "X:SASL_TLS"}, "protocols are PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"listeners": "C://:1", "controller_listener_names": "C"}, "no listener to open"),
        ({"listener_security_protocol_map": "PLAINTEXT"}, "expected NAME:PROTOCOL"),
    ],
)
def test_listeners_that_make_no_sense_stop_the_start(keys: dict[str, str], says: str) -> None:
    with pytest.raises(StartRefused, match=says):
        opened(settings(**keys))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("OTHER://localhost:1", "names OTHER, but the listeners are PLAINTEXT"),
        ("PLAINTEXT://0.0.0.0:1", "no client can connect to"),
        ("PLAINTEXT://:1", "no client can connect to"),
        ("PLAINTEXT://a:1,PLAINTEXT://b:1", "twice"),
    ],
)
def test_an_impossible_advertised_address_stops_the_start(text: str, says: str) -> None:
    wrong = settings(advertised_listeners=text)
    with pytest.raises(StartRefused, match=says):
        advertised(wrong, opened(wrong))


def test_a_listener_with_a_name_is_advertised_by_it() -> None:
    three = settings(listeners="A://localhost:9092,B://127.0.0.1:9093,C://:9094,D://[::1]:9095,E://broker:0")
    assert advertised(three, opened(three)) == {"A": Listener("A", "localhost", 9092), "E": Listener("E", "broker", 0)}


def test_what_an_image_advertises_for_listeners_that_a_flag_replaced_does_not_count() -> None:
    both = Settings(
        {
            Source.ENVIRONMENT: {
                "listeners": "PLAINTEXT://:9092",
                "advertised.listeners": "PLAINTEXT://localhost:9092",
            },
            Source.FLAG: {"listeners": "OTHER://:9092"},
        }
    )
    assert advertised(both, opened(both)) == {}
