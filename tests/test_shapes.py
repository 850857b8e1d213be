"""Our dataclasses behave as those of the standard library."""

from __future__ import annotations

import copy
import pickle
from typing import Generic, TypeVar

import pytest

from broker_lite.shapes import dataclass, field, quick, replace

T = TypeVar("T")


@dataclass(slots=True)
class Point:
    """Somewhere."""

    x: int
    y: int = 0
    names: list[str] = field(default_factory=list)

    def far(self) -> int:
        return self.x + self.y


@dataclass(frozen=True)
class Pin:
    x: int
    label: str = "here"


@dataclass(slots=True, kw_only=True)
class Asked:
    late: int = 1
    first: int


@dataclass(slots=True)
class Doubled(Generic[T]):
    value: T
    twice: tuple[T, ...] = ()

    def __post_init__(self) -> None:
        self.twice = (self.value, self.value)


@dataclass(frozen=True, eq=False)
class Itself:
    x: int


def test_fields_are_given_in_order_or_by_name_and_have_defaults() -> None:
    assert (Point(1).x, Point(1).y, Point(y=2, x=1).far()) == (1, 0, 3)


def test_a_default_that_is_made_belongs_to_one_object() -> None:
    Point(1).names.append("mine")
    assert Point(1).names == []


def test_a_missing_or_unknown_field_is_refused_by_the_first_object_and_by_the_next() -> None:
    @dataclass
    class Fresh:
        x: int

    for _ in range(2):
        with pytest.raises(TypeError, match="x"):
            Fresh()  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="z"):
            Fresh(x=1, z=2)  # type: ignore[call-arg]


def test_a_shared_list_as_a_default_is_refused_where_it_is_declared() -> None:
    with pytest.raises(TypeError, match="default_factory"):

        @dataclass
        class Shared:
            names: list[str] = []  # noqa: RUF012


def test_equality_asks_for_the_class_and_every_field() -> None:
    assert Point(1, 2) == Point(1, 2) != Point(1, 3)
    other: object = Point(1)
    assert Pin(1) != other


def test_only_frozen_ones_are_keys_and_those_without_equality_are_themselves() -> None:
    assert {Pin(1): "a"}[Pin(1)] == "a"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point(1))
    one = Itself(1)
    assert {one: "a"}[one] == "a"
    assert one != Itself(1)


def test_a_frozen_one_refuses_changes_and_no_object_takes_an_unknown_field() -> None:
    with pytest.raises(AttributeError, match="frozen Pin"):
        Pin(1).x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen Pin"):
        del Pin(1).x
    with pytest.raises(AttributeError):
        Point(1).z = 2  # type: ignore[attr-defined]


def test_it_reads_as_it_is_written() -> None:
    assert repr(Point(1, names=["a"])) == "Point(x=1, y=0, names=['a'])"
    assert Point.__doc__ == "Somewhere."


def test_replace_makes_a_changed_copy() -> None:
    point = Point(1, 2, ["a"])
    assert replace(point, y=3) == Point(1, 3, ["a"])
    assert replace(Pin(1), label="there") == Pin(1, "there")
    with pytest.raises(TypeError, match="z"):
        replace(point, z=1)


def test_fields_by_name_alone_may_follow_in_any_order() -> None:
    assert Asked(first=2) == Asked(first=2, late=1)
    with pytest.raises(TypeError):
        Asked(1)  # type: ignore[call-arg]


def test_what_follows_the_making_is_done_and_type_parameters_are_kept() -> None:
    assert Doubled[int](4).twice == (4, 4)


def test_they_match_by_position() -> None:
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


@pytest.mark.parametrize("one", [Point(1, 2, ["a"]), Pin(3, "x")])
def test_they_can_be_copied_and_sent(one: object) -> None:
    assert copy.deepcopy(one) == copy.copy(one) == pickle.loads(pickle.dumps(one)) == one


def test_the_quick_way_makes_the_same_objects() -> None:
    make = quick(Asked)
    assert make(first=2) == Asked(first=2)
    assert make(late=3, first=2) == Asked(first=2, late=3)
    with pytest.raises(TypeError, match="first"):
        make()  # type: ignore[call-arg]
    one, other = quick(Point)(x=1), quick(Point)(x=1)
    one.names.append("mine")
    assert other == Point(1)
