from __future__ import annotations

import pytest

from broker_lite.errors import Malformed
from broker_lite.wire.headers import (
    RequestHeader,
    read_request_header,
    request_header,
    request_is_flexible,
    response_header,
    response_is_flexible,
)

OLD, FLEXIBLE = (0, 8), (0, 9)


@pytest.mark.parametrize(("key", "version"), [OLD, FLEXIBLE])
@pytest.mark.parametrize("client", ["producer-1", "", None, "größe"])
def test_a_header_comes_back_as_it_was(key: int, version: int, client: str | None) -> None:
    header = RequestHeader(key, version, 77, client)
    written = request_header(header, flexible=request_is_flexible(key, version))
    assert read_request_header(memoryview(written + b"body"), request_is_flexible) == (header, len(written))


def test_the_clients_name_keeps_its_old_form_in_flexible_versions() -> None:
    header = bytes.fromhex("0012 0003 00000001 0003") + b"abc" + b"\x00"
    assert read_request_header(memoryview(header), request_is_flexible) == (RequestHeader(18, 3, 1, "abc"), 14)


def test_unknown_tags_in_a_header_are_stepped_over() -> None:
    header = bytes.fromhex("0000 0009 00000001 FFFF 01 07 02 AABB")
    assert read_request_header(memoryview(header), request_is_flexible) == (RequestHeader(0, 9, 1, None), 15)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "0000 0009 000000",
        pytest.param("0000 0008 00000001 0005 6162", id="a name past the end"),
        pytest.param("0000 0009 00000001 0002 6162", id="no tags where there must be"),
        pytest.param("0000 0009 00000001 0000 01 00 05", id="a tag past the end"),
        pytest.param("7FFF 0000 00000001 0000", id="an API nobody knows"),
        pytest.param("4745 5420 2F20 4854 5450", id="a browser"),
    ],
)
def test_a_header_that_cannot_be_read_is_refused(written: str) -> None:
    with pytest.raises(Malformed):
        read_request_header(memoryview(bytes.fromhex(written)), request_is_flexible)


def test_a_flexible_response_carries_tags_but_that_of_api_versions_never_does() -> None:
    assert response_header(5, flexible=response_is_flexible(*OLD)).hex() == "00000005"
    assert response_header(5, flexible=response_is_flexible(*FLEXIBLE)).hex() == "0000000500"
    assert response_header(5, flexible=response_is_flexible(18, 3)).hex() == "00000005"


def test_a_version_from_the_future_is_flexible_as_its_elders() -> None:
    assert request_is_flexible(18, 99)
    assert not request_is_flexible(17, 99), "SaslHandshake never became flexible"
