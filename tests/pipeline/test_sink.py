"""What may be written to topics, told before anything is."""

from __future__ import annotations

import pytest

from broker_lite.pipeline.errors import WrongOption
from broker_lite.pipeline.sink import check_columns

ALL = {
    "key": "string",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
    "topic": "string",
    "partition": "int",
    "timestamp": "timestamp",
}


def test_the_columns_of_a_topic_can_be_written_to_one() -> None:
    check_columns(ALL, None)
    check_columns({"value": "string", "key": "void"}, "orders")


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (ALL | {"value": "int"}, "column value is of type int, but must be binary or string"),
        (ALL | {"headers": "map<string,string>"}, "column headers is of type map<string,string>, but must be array"),
        (ALL | {"timestamp": "string"}, "column timestamp is of type string, but must be timestamp"),
        (ALL | {"offset": "bigint"}, "column offset cannot be written"),
        ({"key": "string"}, "there is no column value"),
        ({"value": "string"}, "which topic"),
    ],
)
def test_a_column_of_another_type_is_refused_before_anything_is_written(columns: dict[str, str], why: str) -> None:
    with pytest.raises(WrongOption, match=why):
        check_columns(columns, None)
