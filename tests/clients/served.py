"""Which API keys a broker advertises, asked with the one request every broker answers: ApiVersions v0."""

from __future__ import annotations

import socket
import struct

API_VERSIONS = 18


def served_keys(bootstrap: str) -> frozenset[int]:
    host, _, port = bootstrap.rpartition(":")
    request = struct.pack(">hhih", API_VERSIONS, 0, 1, -1)
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _exactly(connection, 4))
        answer = _exactly(connection, size)
    _, error, count = struct.unpack_from(">ihi", answer)
    assert error == 0, f"ApiVersions v0 was answered with error {error}"
    return frozenset(key for key, _, _ in struct.iter_unpack(">hhh", answer[10 : 10 + 6 * count]))


def _exactly(connection: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        chunk = connection.recv(size - len(got))
        assert chunk, f"the broker closed the connection after {len(got)} of {size} bytes"
        got += chunk
    return bytes(got)
