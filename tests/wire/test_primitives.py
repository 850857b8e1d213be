from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_lite.errors import Malformed
from broker_lite.wire.primitives import (
    read_unsigned_varint,
    read_varint,
    read_varlong,
    skip_tags,
    unsigned_varint,
    write_unsigned_varint,
    write_varint,
    write_varlong,
)

SIGNED = {
    0: "00",
    -1: "01",
    1: "02",
    63: "7E",
    64: "80 01",
    -65: "81 01",
    8191: "FE 7F",
    8192: "80 80 01",
    2147483647: "FE FF FF FF 0F",
    -2147483648: "FF FF FF FF 0F",
}
UNSIGNED = {127: "7F", 128: "80 01", 16384: "80 80 01"}


@pytest.mark.parametrize(("number", "written"), SIGNED.items())
def test_signed_varints_are_folded_and_low_bits_come_first(number: int, written: str) -> None:
    out = bytearray()
    write_varint(out, number)
    assert out == bytes.fromhex(written)
    assert read_varint(out, 0) == (number, len(out))


@pytest.mark.parametrize(("number", "written"), UNSIGNED.items())
def test_unsigned_varints(number: int, written: str) -> None:
    out = bytearray()
    write_unsigned_varint(out, number)
    assert out == bytes.fromhex(written)
    assert read_unsigned_varint(out, 0) == (number, len(out))


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3))
def test_a_varlong_comes_back_from_anywhere(number: int, before: bytes) -> None:
    out = bytearray(before)
    write_varlong(out, number)
    assert read_varlong(out, len(before)) == (number, len(out))
    assert len(out) - len(before) <= 10


@pytest.mark.parametrize(
    "written",
    [
        pytest.param("80 80 80 80 80 00", id="a fifth byte that says more"),
        pytest.param("FF FF FF FF 1F", id="a 33rd bit"),
        pytest.param("80 80", id="no end"),
        pytest.param("", id="nothing"),
    ],
)
def test_a_varint_that_does_not_fit_in_32_bits_is_refused(written: str) -> None:
    with pytest.raises(Malformed):
        read_unsigned_varint(bytes.fromhex(written), 0)
    with pytest.raises(Malformed):
        read_varint(bytes.fromhex(written), 0)


@pytest.mark.parametrize("written", ["FF" * 10 + "01", "FF" * 9 + "03", "FF" * 9])
def test_a_varlong_that_does_not_fit_in_64_bits_is_refused(written: str) -> None:
    with pytest.raises(Malformed):
        read_varlong(bytes.fromhex(written), 0)


def test_the_largest_varlongs_still_fit() -> None:
    assert read_varlong(bytes.fromhex("FE" + "FF" * 8 + "01"), 0) == (2**63 - 1, 10)
    assert read_varlong(bytes.fromhex("FF" * 9 + "01"), 0) == (-(2**63), 10)


def test_a_negative_number_has_no_unsigned_varint() -> None:
    with pytest.raises(ValueError, match="-1"):
        unsigned_varint(-1)


def test_unknown_tags_are_stepped_over_in_any_order() -> None:
    two_tags = bytes.fromhex("02  05 03 AABBCC  00 00")
    assert skip_tags(two_tags, 1, two_tags[0]) == len(two_tags)


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param("01 05 03 AABB", id="a size past the end"),
        pytest.param("02 05 01 AA", id="fewer than announced"),
        pytest.param("C1 01" + "00 00" * 193, id="more than anybody needs"),
        pytest.param("01 05 FFFFFFFF0F", id="a size of 4 GiB"),
    ],
)
def test_tags_that_lie_are_refused(tags: str) -> None:
    data = bytes.fromhex(tags)
    with pytest.raises(Malformed):
        skip_tags(data, 1, data[0])
