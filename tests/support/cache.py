"""What tests build or fetch is made once and kept: in the user's cache, in folders named after what went into them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "broker-lite" / "clients"


@contextmanager
def alone(thing: Path) -> Iterator[None]:
    """One process, and one thread of it, at a time is in here: two workers may want the same thing made."""
    thing.parent.mkdir(parents=True, exist_ok=True)
    with thing.with_name(f"{thing.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def kept(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of that name, made now if it is not there yet.

    It appears whole: it is made beside its place and renamed, so what was interrupted is not mistaken for a build.
    """
    final = CACHE / name
    if not final.exists():
        with alone(final):
            if not final.exists():
                making = final.with_name(f"{name}-making")
                shutil.rmtree(making, ignore_errors=True)
                making.mkdir(parents=True)
                make(making)
                making.rename(final)
    return final


def digest(root: Path, *files: Path) -> str:
    """Of the names and the contents, to tell one state of the sources from another."""
    total = hashlib.sha256()
    for file in files:
        total.update(file.relative_to(root).as_posix().encode() + file.read_bytes())
    return total.hexdigest()[:16]


def sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
