from __future__ import annotations

import os
import random
import socket

from broker_lite.server.outbox import CHUNK, JOIN, Outbox


class OnDisk:
    def __init__(self, content: bytes, at_most: int = 1 << 30) -> None:
        self.content = content
        self.at_most = at_most
        self.released = 0

    def __len__(self) -> int:
        return len(self.content)

    def read(self, start: int, n: int) -> bytes:
        assert not self.released
        return self.content[start : start + min(n, self.at_most)]

    def send(self, socket: int, start: int) -> int:
        return os.write(socket, self.read(start, self.at_most))

    def release(self) -> None:
        self.released += 1


def writes(outbox: Outbox) -> list[bytes]:
    found = []
    while outbox:
        found.append(bytes(outbox.next_write()))
    return found


def test_small_pieces_leave_together() -> None:
    outbox = Outbox()
    assert outbox.put([b"a", bytearray(b"b"), memoryview(b"c"), OnDisk(b"d")]) == 4
    assert writes(outbox) == [b"abcd"]


def test_large_pieces_leave_alone_in_chunks() -> None:
    outbox = Outbox()
    large = bytes(CHUNK + 1)
    outbox.put([b"a", large, b"b"])
    assert [len(one) for one in writes(outbox)] == [1, CHUNK, 2]


def test_what_leaves_is_what_was_put_whatever_the_sizes() -> None:
    chance = random.Random(3)
    for _ in range(100):
        outbox, put, lazy = Outbox(), b"", []
        for _ in range(chance.randint(1, 8)):
            content = chance.randbytes(chance.choice([0, 1, 100, JOIN, JOIN + 1, CHUNK, 3 * CHUNK + 5]))
            put += content
            if chance.random() < 0.5:
                lazy.append(OnDisk(content, at_most=chance.choice([1 << 30, 50_000])))
                outbox.put([lazy[-1]])
            else:
                outbox.put([content])
        found = writes(outbox)
        assert b"".join(found) == put
        assert max(map(len, found)) <= CHUNK
        assert [one.released for one in lazy] == [1] * len(lazy)


def test_what_will_not_be_read_is_released() -> None:
    outbox = Outbox()
    half, unread = OnDisk(bytes(2 * CHUNK)), OnDisk(b"x")
    outbox.put([half, unread])
    outbox.next_write()
    outbox.clear()
    assert (half.released, unread.released) == (1, 1)
    assert not outbox


def test_long_pieces_go_straight_into_a_socket_until_it_is_full() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        outbox, lazy = Outbox(), OnDisk(bytes(range(256)) * 10_000, at_most=50_000)
        outbox.put([b"head", lazy, b"tail"])
        assert outbox.is_long
        heard = b""
        while outbox:
            if not outbox.send(ours.fileno()):
                heard += theirs.recv(1 << 20)
        ours.shutdown(socket.SHUT_WR)
        while more := theirs.recv(1 << 20):
            heard += more
    assert heard == b"head" + lazy.content + b"tail"
    assert lazy.released == 1
    assert not outbox.is_long


def test_what_is_short_is_not_worth_it() -> None:
    outbox = Outbox()
    outbox.put([b"x" * CHUNK])
    assert not outbox.is_long
