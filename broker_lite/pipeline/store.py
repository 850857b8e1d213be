"""Files on this machine or anywhere that pyarrow can reach: a path, or a URI such as s3://bucket/folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import TracebackType

import pyarrow as pa
from pyarrow import fs

from broker_lite.pipeline.errors import NotThere


@dataclass(frozen=True, slots=True)
class Found:
    name: str
    size: int
    is_folder: bool


class Store:
    """One folder and what lies below it; names are relative to it, with slashes."""

    def __init__(self, place: str) -> None:
        self.place = place
        try:
            if "://" in place:
                self._fs, self._root = fs.FileSystem.from_uri(place)
            else:
                self._fs, self._root = fs.LocalFileSystem(), os.path.abspath(place)
        except (OSError, ValueError, pa.ArrowInvalid) as error:
            raise NotThere(f"{place} cannot be opened: {error}") from None

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}" if name else self._root

    def exists(self, name: str = "") -> bool:
        return bool(self._fs.get_file_info(self._path(name)).type != fs.FileType.NotFound)

    def is_file(self) -> bool:
        """Whether the place itself is one, so that nothing can lie below it."""
        return bool(self._fs.get_file_info(self._root).type == fs.FileType.File)

    def listing(self, name: str = "") -> list[Found]:
        """What lies right in the folder; nothing if there is no such folder."""
        selector = fs.FileSelector(self._path(name), allow_not_found=True)
        return sorted(
            (
                Found(one.base_name, int(one.size or 0), one.type == fs.FileType.Directory)
                for one in self._fs.get_file_info(selector)
            ),
            key=lambda one: one.name,
        )

    def read_bytes(self, name: str) -> bytes:
        with self._fs.open_input_file(self._path(name)) as file:
            return bytes(file.read())

    def open(self, name: str, room: Room | None = None) -> Reading:
        return Reading(self._fs.open_input_file(self._path(name)), room)

    def open_arrow(self, name: str) -> pa.NativeFile:
        """The file for whoever wants a pyarrow file."""
        return self._fs.open_input_file(self._path(name))

    def make_folder(self) -> None:
        if self.is_file():
            raise NotThere(f"{self.place} is a file, not a folder")
        try:
            self._fs.create_dir(self._root, recursive=True)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise NotThere(f"the folder {self.place} cannot be made: {why}") from None

    def create(self, name: str) -> pa.NativeFile:
        return self._fs.open_output_stream(self._path(name))

    def finish(self, half: str, name: str) -> None:
        """Give a whole file its final name; on this machine it is on the platter first."""
        if isinstance(self._fs, fs.LocalFileSystem):
            for path, flags in ((self._path(half), os.O_RDONLY), (self._root, os.O_RDONLY)):
                descriptor = os.open(path, flags)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
        self._fs.move(self._path(half), self._path(name))

    def write(self, name: str, data: bytes) -> None:
        """The whole file or none: written beside it, then renamed."""
        half = f".{name}.{os.getpid()}.tmp"
        with self.create(half) as out:
            out.write(data)
        self.finish(half, name)

    def remove(self, name: str) -> None:
        self._fs.delete_file(self._path(name))


class Room:
    """Memory that is read into again and again: fresh memory for every piece costs more than the reading."""

    def __init__(self) -> None:
        self._held = bytearray()

    def of(self, size: int) -> memoryview:
        if len(self._held) < size:
            self._held = bytearray(size)
        return memoryview(self._held)[:size]


class Reading:
    """An open file. What was opened stays readable even if its name is given to another file."""

    def __init__(self, file: pa.NativeFile, room: Room | None = None) -> None:
        self._file, self._room = file, room
        self.size = int(file.size())

    def at(self, position: int, count: int) -> memoryview:
        return memoryview(self._file.read_at(count, position))

    def next(self, position: int, count: int) -> memoryview:
        """The same; where there is a room, only good until it is asked for again."""
        if self._room is None:
            return self.at(position, count)
        self._file.seek(position)
        view = self._room.of(count)
        return view[: self._file.readinto(view)]

    def __enter__(self) -> Reading:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
