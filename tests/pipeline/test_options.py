"""What a reader and a writer may be asked for, and how they say no."""

from __future__ import annotations

import pytest

from broker_lite.pipeline.errors import WrongOption
from broker_lite.pipeline.options import read_options, write_options


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"subscribe": " , "}, "subscribe names no topic"),
        ({"assign": "{}"}, "assign must look like"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, r"startingOffsets of orders-0 cannot be latest \(-1\) in a batch"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, r"endingOffsets of orders-0 cannot be earliest \(-2\) in a batch"),
        ({"startingOffsets": '{"orders":{"0":-5}}'}, "startingOffsets of orders-0 is -5, which is no offset"),
        ({"startingOffsets": "sometimes"}, "startingOffsets is no JSON object: 'sometimes'"),
        ({"minPartitions": "0"}, "minPartitions is '0', but must be a number above 0"),
        ({"onCorrupt": "perhaps"}, "onCorrupt is 'perhaps', but must be one of fail, skip, report"),
        ({"subscribe": "a", "subscribePattern": "b"}, "subscribe and subscribePattern are two ways"),
        ({"groupIdPrefix": "x"}, "the connector's option groupIdPrefix is not supported here"),
        ({"kafka.fetch.max.bytes": "1"}, "the connector's option kafka.fetch.max.bytes is not supported here"),
        ({"startingOfsets": "earliest"}, "there is no option 'startingofsets' here; .*, startingOffsets,"),
    ],
)
def test_a_wrong_option_is_told_as_people_write_it(options: dict[str, str], why: str) -> None:
    with pytest.raises(WrongOption, match=why):
        read_options({name.lower(): value for name, value in options.items()} | {"path": "data"}, streaming=False)


def test_a_stream_may_begin_at_the_latest_offset_of_a_partition() -> None:
    asked = read_options({"path": "data", "startingOffsets": '{"orders":{"0":-1}}'}, streaming=True)
    assert asked.start.offsets == {"orders": {0: -1}}


def test_records_are_not_written_to_a_path() -> None:
    with pytest.raises(WrongOption, match="records are written to a broker"):
        write_options({"path": "data", "topic": "orders"})
    with pytest.raises(WrongOption, match="there is no option 'topics' here"):
        write_options({"bootstrap": "localhost:9092", "topics": "orders"})


def test_an_option_that_has_a_name_with_the_connector_too_is_given_once() -> None:
    to = {"kafka.bootstrap.servers": "localhost:9092", "topic": "orders"}
    assert write_options(to | {"kafka.compression.type": "lz4"}).codec == "lz4"
    assert write_options(to | {"compression": "zstd"}).codec == "zstd"
    with pytest.raises(WrongOption, match=r"compression and kafka\.compression\.type are the same option"):
        write_options(to | {"compression": "zstd", "kafka.compression.type": "lz4"})
    with pytest.raises(WrongOption, match=r"kafka\.compression\.type is 'brotli'"):
        write_options(to | {"kafka.compression.type": "brotli"})
    with pytest.raises(WrongOption, match=r"bootstrap and kafka\.bootstrap\.servers are the same option"):
        read_options({"kafka.bootstrap.servers": "a:1", "bootstrap": "b:1", "subscribe": "c"}, streaming=False)
