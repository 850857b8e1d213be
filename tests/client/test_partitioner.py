from __future__ import annotations

import pytest

from broker_lite.client.partitioner import murmur2, partition_for


@pytest.mark.parametrize(
    ("data", "hashed"),
    [
        # The values that Kafka's own test of its hash pins.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_a_key_hashes_as_in_kafkas_java_client(data: bytes, hashed: int) -> None:
    assert murmur2(data) == hashed & 0xFFFFFFFF


def test_the_sign_bit_is_dropped_before_the_division() -> None:
    assert partition_for(b"21", 7) == (-973932308 & 0x7FFFFFFF) % 7
