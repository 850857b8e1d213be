"""Listen between a client and a broker and keep the first exchange of every API and version.

    python -m tests.golden.capture 19193 127.0.0.1:19192 tests/golden/aiokafka "aiokafka 0.14.0"

Clients go to the address that brokers advertise, so the broker must advertise this listener
(advertised.listeners=PLAINTEXT://127.0.0.1:19193).  What is already kept is not replaced.
"""

from __future__ import annotations

import asyncio
import struct
import sys
import textwrap
from collections import deque
from pathlib import Path

from broker_lite.wire.messages import modules

Exchange = tuple[int, int, bytes]
"""Key, version and the whole request frame."""


class Capture:
    def __init__(self, broker: str, folder: Path, who: str) -> None:
        self.host, _, port = broker.partition(":")
        self.port = int(port)
        self.folder = folder
        self.who = who

    async def serve(self, port: int) -> None:
        server = await asyncio.start_server(self.connection, "127.0.0.1", port)
        async with server:
            await server.serve_forever()

    async def connection(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        broker, to_broker = await asyncio.open_connection(self.host, self.port)
        asked: deque[Exchange] = deque()
        requests = asyncio.create_task(self.requests(client, to_broker, asked))
        try:
            while True:
                frame = await read_frame(broker)
                self.keep(frame, asked)
                to_client.write(struct.pack(">i", len(frame)) + frame)
                await to_client.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            requests.cancel()
            to_client.close()
            to_broker.close()

    async def requests(
        self, client: asyncio.StreamReader, to_broker: asyncio.StreamWriter, asked: deque[Exchange]
    ) -> None:
        try:
            while True:
                frame = await read_frame(client)
                key, version = struct.unpack_from(">hh", frame)
                asked.append((key, version, frame))
                to_broker.write(struct.pack(">i", len(frame)) + frame)
                await to_broker.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            to_broker.close()

    def keep(self, response: bytes, asked: deque[Exchange]) -> None:
        """Answers come in order; a request whose number is not this one's got no answer (acks=0)."""
        while asked and asked[0][2][4:8] != response[:4]:
            asked.popleft()
        key, version, request = asked.popleft()
        path = self.folder / f"{modules().get(key, f'k{key:02d}')}.v{version}.txt"
        if key in modules() and not path.exists() and len(request) + len(response) < 6000:
            self.folder.mkdir(parents=True, exist_ok=True)
            path.write_text(f"who: {self.who}\n{paragraph('request', request)}{paragraph('response', response)}")


async def read_frame(stream: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await stream.readexactly(4))
    return await stream.readexactly(size)


def paragraph(name: str, data: bytes) -> str:
    return f"\n{name}:\n{textwrap.fill(data.hex(' '), 3 * 32)}\n"


if __name__ == "__main__":
    listen, broker, folder, who = sys.argv[1:]
    asyncio.run(Capture(broker, Path(folder), who).serve(int(listen)))
