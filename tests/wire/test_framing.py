from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_lite.errors import Malformed
from broker_lite.wire.framing import Framer, framed


def stream(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


@given(st.lists(st.binary(max_size=30), max_size=5), st.lists(st.integers(0, 200), max_size=6))
def test_frames_come_out_whole_however_the_bytes_arrive(frames: list[bytes], cuts: list[int]) -> None:
    data = stream(*frames)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    framer = Framer(max_bytes=100)
    heard = [bytes(frame) for start, stop in pairwise(edges) for frame in framer.feed(data[start:stop])]
    assert heard == frames
    assert framer.waiting == 0


@pytest.mark.parametrize("size", [-1, 101, 0x47455420, -0x7FFFFFFF])
def test_an_impossible_length_is_refused_before_its_bytes_come(size: int) -> None:
    framer = Framer(max_bytes=100)
    with pytest.raises(Malformed, match=str(size)):
        list(framer.feed(size.to_bytes(4, "big", signed=True)))


def test_frames_before_an_impossible_length_are_still_heard() -> None:
    frames = iter(Framer(max_bytes=100).feed(stream(b"good") + b"\xff\xff\xff\xff"))
    assert bytes(next(frames)) == b"good"
    with pytest.raises(Malformed):
        next(frames)


def test_a_frame_on_its_way_out_is_measured_with_its_records() -> None:
    records = memoryview(bytes(1000))
    first, second, third = framed(b"head", [b"before", records, b"after"])
    assert first == (4 + 6 + 1000 + 5).to_bytes(4, "big") + b"head" + b"before"
    assert second is records
    assert third == b"after"
