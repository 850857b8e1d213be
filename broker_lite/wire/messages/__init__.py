"""Every message by its key.  A module is imported when somebody asks for its key, not before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from broker_lite.wire.schema import spec_of


@cache
def modules() -> Mapping[int, str]:
    """Key to module name, read off the file names: a new API is a new file and no changed one."""
    names = [one.name for one in iter_modules(__path__) if one.name[0] == "k"]
    found = {int(name[1:3]): name for name in names}
    assert len(found) == len(names), "two files declare one key"
    return found


@cache
def request_class(key: int) -> type[object]:
    """The request of this API; KeyError if there is none."""
    return _class(key, "Request")


@cache
def response_class(key: int) -> type[object]:
    """The response of this API; KeyError if there is none."""
    return _class(key, "Response")


def _class(key: int, kind: str) -> type[object]:
    module = import_module(f"{__name__}.{modules()[key]}")
    for name, found in vars(module).items():
        if name.endswith(kind) and hasattr(found, "__message__") and spec_of(found).key == key:
            assert isinstance(found, type)
            return found
    raise KeyError(f"{module.__name__} declares no {kind.lower()} with key {key}")


class _All(Mapping[int, tuple[type[object], type[object]]]):
    """Key to (request, response), imported one by one as they are looked at."""

    def __getitem__(self, key: int) -> tuple[type[object], type[object]]:
        return request_class(key), response_class(key)

    def __iter__(self) -> Iterator[int]:
        return iter(modules())

    def __len__(self) -> int:
        return len(modules())


ALL: Mapping[int, tuple[type[object], type[object]]] = _All()
