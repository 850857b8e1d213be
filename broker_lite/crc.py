"""CRC-32C, from the extension module of the crc32c package.

The package itself imports a command line and asks for its own version through `importlib.metadata`, `email` and
`zipfile` when it is imported, and that is a fifteenth of our whole start.  So its extension is loaded alone.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import cast

Buffer = bytes | bytearray | memoryview


def _extension() -> ModuleType:
    """The compiled module, or the whole package where it lies elsewhere than where we look."""
    package = find_spec("crc32c")
    places = None if package is None else package.submodule_search_locations
    spec = None if places is None else PathFinder.find_spec("crc32c._crc32c", list(places))
    if spec is None or spec.loader is None:
        import crc32c

        return crc32c
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


crc32c = cast("Callable[[Buffer], int]", _extension().crc32c)
