"""A disk that lives in memory and dies with the process: the files of `durability=memory`."""

from __future__ import annotations

import errno
import os
from builtins import list as List
from collections.abc import Sequence
from pathlib import Path

Bytes = bytes | bytearray | memoryview


class MemoryFile:
    __slots__ = ("_content", "_path")

    def __init__(self, path: Path, content: bytearray) -> None:
        self._path = path
        self._content = content

    @property
    def path(self) -> Path:
        return self._path

    @property
    def size(self) -> int:
        return len(self._content)

    def append(self, buffers: Sequence[Bytes]) -> None:
        for buffer in buffers:
            self._content += buffer

    def pread(self, position: int, count: int) -> bytes:
        return bytes(self._content[position : position + count])  # a view would forbid an append in the meantime

    def send(self, socket: int, position: int, count: int) -> int:
        with memoryview(self._content) as whole, whole[position : position + count] as part:
            return os.write(socket, part)

    def expect(self, position: int, count: int) -> None:
        pass

    def truncate(self, size: int) -> None:
        del self._content[size:]

    def sync(self) -> None:
        pass

    def acquire(self) -> None:
        pass

    def release(self) -> None:
        pass

    def close(self) -> None:
        pass


class MemoryLock:
    def release(self) -> None:
        pass


class MemoryDisk:
    """Folders of byte arrays. Whoever holds a MemoryFile keeps its bytes, removed or not."""

    crowded = False

    def __init__(self) -> None:
        self._folders: dict[Path, dict[str, bytearray]] = {}
        self._children: dict[Path, dict[str, None]] = {}

    def _folder(self, path: Path) -> dict[str, bytearray]:
        try:
            return self._folders[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such folder", str(path)) from None

    def _content(self, path: Path) -> bytearray:
        try:
            return self._folder(path.parent)[path.name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path)) from None

    def open_append(self, path: Path, *, size: int | None = None) -> MemoryFile:
        if size == 0:
            self.mkdir(path.parent)  # the first file of a folder that is made with it
        return MemoryFile(path, self._folder(path.parent).setdefault(path.name, bytearray()))

    def open_read(self, path: Path) -> MemoryFile:
        return MemoryFile(path, self._content(path))

    def read_bytes(self, path: Path) -> bytes:
        return bytes(self._content(path))

    def write_atomic(self, path: Path, data: Bytes, *, sync: bool) -> None:
        self._folder(path.parent)[path.name] = bytearray(data)

    def append_bytes(self, path: Path, data: Bytes) -> None:
        self.open_append(path).append([data])

    def truncate(self, path: Path, size: int) -> None:
        content = self._content(path)
        del content[size:]
        content += bytes(size - len(content))

    def replace(self, source: Path, target: Path) -> None:
        if source in self._folders:
            self._move(source, target)
            return
        content = self._content(source)
        del self._folders[source.parent][source.name]
        self._folder(target.parent)[target.name] = content

    def rename(self, source: Path, target: Path) -> None:
        self.replace(source, target)

    def _move(self, source: Path, target: Path) -> None:
        for folder in self._tree(source):
            moved = target / folder.relative_to(source)
            self._folders[moved] = self._folders.pop(folder)
            self._children[moved] = self._children.pop(folder)
        self._children[source.parent].pop(source.name, None)
        self._children[target.parent][target.name] = None

    def _tree(self, path: Path) -> List[Path]:
        return [path, *(found for name in self._children[path] for found in self._tree(path / name))]

    def copy(self, source: Path, target: Path, *, start: int = 0) -> None:
        self.write_atomic(target, self._content(source)[start:], sync=True)

    def remove(self, path: Path) -> None:
        self._folder(path.parent).pop(path.name, None)

    def remove_tree(self, path: Path) -> None:
        self._folder(path)
        for folder in self._tree(path):
            del self._folders[folder], self._children[folder]
        self._children.get(path.parent, {}).pop(path.name, None)

    def list(self, path: Path) -> List[str]:
        return [*self._folder(path), *self._children[path]]

    def sizes(self, path: Path) -> dict[str, int]:
        return {name: len(content) for name, content in list(self._folder(path).items())}

    def exists(self, path: Path) -> bool:
        return path in self._folders or path.name in self._folders.get(path.parent, {})

    def mkdir(self, path: Path) -> None:
        while path not in self._folders:
            self._folders[path] = {}
            self._children.setdefault(path, {})
            self._children.setdefault(path.parent, {})[path.name] = None
            path = path.parent

    def sync_path(self, path: Path) -> None:
        pass

    def sync_dir(self, path: Path) -> None:
        pass

    def lock(self, path: Path) -> MemoryLock:
        return MemoryLock()
