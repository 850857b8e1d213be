"""One client's connection: bytes in, one request at a time, replies in order.

This file and `entrance.py` know asyncio; everywhere else waiting is anyio's. What comes is kept by `Inbox`, what goes
by `Outbox`; here is who goes first.

One at a time. `answer` gives the reply at once or something to wait for. A frame belongs to its request for good:
one that came whole is copied out of the shared buffer (1 µs for 16 KiB, the request itself is 10 µs and more), one
that grew in its own buffer is not copied. While a request waits we read on, because that is how a disconnect is
noticed, until one further frame has come; the rest stays with the kernel and the client. The next request is looked
at when the reply is with the kernel, all but `HIGH_WATER` bytes, so a client that does not read does not get to ask.

Replies of one turn of the loop are joined and written once. A long reply gives the others their turn every `TURN`.

The end. Bad bytes cost the connection, and what was answered before is still sent. When the client is gone its waiting
request is cancelled, but not before it had its first step: the last thing an acks=0 producer does is to hang up.
Whatever a handler does wrong costs this connection at most.

Measured with an echo on two cores shared with others, µs of processor time per request and requests a second:

                      200 B          200 B, 16 ahead   16 KiB         16 KiB, 5 ahead   900 KB
    uvloop, at once   12 µs  43 k/s   4 µs   83 k/s    15 µs  35 k/s  10 µs  63 k/s     250 µs  1.7 k/s
    uvloop, waiting   19 µs  34 k/s  14 µs             21 µs          19 µs             320 µs
    asyncio, at once  19 µs  37 k/s   5 µs  209 k/s    21 µs  36 k/s  12 µs  59 k/s     350 µs  1.8 k/s
    asyncio, waiting  32 µs          16 µs             32 µs          35 µs             400 µs

Ten thousand idle connections take 31 MiB. One that comes, asks once and goes costs 0.25 ms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import anyio

from broker_lite.apis.registry import Answer, ConnectionFacts
from broker_lite.errors import Malformed
from broker_lite.logs import get_logger
from broker_lite.server.inbox import Inbox, read_size
from broker_lite.server.outbox import CLOSED, JOIN, Outbox
from broker_lite.server.patience import IN_DEMAND_S, Patience
from broker_lite.server.sasl import Answerer, Gate
from broker_lite.server.shared import Shared
from broker_lite.server.strangers import FIRST_FRAME_MAX, language_of, peer_name, printable
from broker_lite.server.tls import Tls

TURN = 1_048_576
"""Written for one connection before the others get their turn."""
HIGH_WATER = 65_536
LAST_WORDS = 0.1
"""Seconds between a refused log-in's answer and the end of its connection."""
LINGER = 30.0
"""Seconds for the last bytes of a closing connection to leave."""

log = get_logger(__name__)


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_answer",
        "_busy",
        "_choked",
        "_closed",
        "_closing",
        "_eof",
        "_frames",
        "_gate",
        "_idle",
        "_inbox",
        "_leaving",
        "_max_frame",
        "_outbox",
        "_patience",
        "_reading",
        "_scope",
        "_shared",
        "_tls",
        "_transport",
        "_waits",
        "facts",
    )

    def __init__(
        self, shared: Shared, facts: ConnectionFacts, tls: Tls | None = None, gate: Gate | None = None
    ) -> None:
        self.facts = facts
        self._shared = shared
        self._transport: asyncio.Transport = CLOSED  # type: ignore[assignment]
        self._tls = tls
        self._gate = gate
        """Until somebody has logged in, if that is asked for."""
        self._answer: Answerer = shared.answer if gate is None else gate
        self._inbox = Inbox(shared.receive, shared.budget if gate is None else shared.strangers, self._breathe)
        self._outbox = Outbox()
        self._max_frame = min(self._largest_frame(), FIRST_FRAME_MAX)
        self._frames = 0
        self._busy = False
        """A request waits for something."""
        self._waits: Awaitable[Answer] | None = None
        """It, before our task takes it."""
        self._scope: anyio.CancelScope | None = None
        """Of our task, if there is one."""
        self._idle: asyncio.Future[None] | None = None
        """What our task waits for when no request does."""
        self._choked = False
        """The transport holds more than it likes."""
        self._reading = True
        self._eof = self._leaving = self._closing = self._closed = False
        self._patience = Patience()

    # ------------------------------------------------------------ what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's is no asyncio.Transport, but behaves as one
        self._transport.set_write_buffer_limits(high=HIGH_WATER)
        if self._tls is not None:
            self.facts.principal = self._tls.principal_of(transport.get_extra_info("ssl_object"))
        self._shared.on_made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox.room()

    def buffer_updated(self, nbytes: int) -> None:
        self._patience.stirred = True
        engaged = self._busy or self._choked or self._closing or self._leaving or self._outbox.queue
        if not engaged:
            frame = self._inbox.only(nbytes)
            if frame is not None and len(frame) <= self._max_frame:
                self._frames += 1
                if self._frames == 1:
                    self._max_frame = self._largest_frame()
                self._ask_alone(frame)
                return
        came = self._inbox.arrived(nbytes)
        if came is not None:
            stream, ours = came
            self._take(stream, ours)
        self._proceed()

    def eof_received(self) -> bool:
        """The client will say no more. What it asked in whole frames is answered, as Kafka does; but a request that
        waits for something to happen, and nothing after it, is given up."""
        self._eof = True
        self._inbox.drop_partial()
        if self._busy and self._inbox.backlog is None:
            # Not at once: a request that came just before has its first step first.
            asyncio.get_running_loop().call_soon(self._give_up)
        # TLS cannot be half closed: what is written after the client's end goes nowhere.
        return self._tls is None and (self._busy or bool(self._outbox) or self._choked)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        if self._scope is not None:
            self._scope.cancel()
        self._outbox.clear()
        self._inbox.end()
        self._transport = CLOSED  # type: ignore[assignment]
        self._shared.on_gone(self)

    def pause_writing(self) -> None:
        self._choked = True

    def resume_writing(self) -> None:
        self._choked = False
        self._patience.stirred = True
        self._proceed()

    # ------------------------------------------------------------ what the server calls

    def sweep(self, now: float) -> None:
        """One sweeper looks at every connection about once a second; only here is time a matter."""
        limits = self._shared.limits
        quiet = self._patience.quiet_for(now)
        if self._closing:
            if quiet > LINGER:
                self._transport.abort()
        elif self._gate is not None and self._gate.overdue(now):
            self._refuse("a log-in has begun and was not complete in time")
        elif self._patience.is_late(self._inbox, self._frames, now, limits.read_frame_ms):
            self._refuse("a request has begun and did not arrive in time")
        elif self._inbox.holds_up and quiet > (limits.read_frame_ms / 1000 if self._busy else IN_DEMAND_S):
            self._refuse("others wait for the memory of a request that does not go on")
        elif self._outbox.is_overdue(now):
            self._complain("a long response was not read in time, and others wait for theirs")
            self.abort()
        elif 0 <= limits.max_idle_ms / 1000 < quiet and not self._busy:
            log.debug("connection.idle", peer=peer_name(self.facts), seconds=round(quiet))
            self._closing = True
            self._transport.abort()

    def leave(self) -> None:
        """The server stops: finish the request in progress, take no further one."""
        self._leaving = True
        self._inbox.drop()
        self._proceed()

    def abort(self) -> None:
        """The server's patience is over; or the handshake failed, and there never was a connection."""
        self._inbox.end()
        self._transport.abort()

    # ------------------------------------------------------------ one request at a time

    def _take(self, stream: memoryview, ours: bool) -> None:
        """Ask for an answer to each whole frame in turn, as long as answers come at once and leave; keep the rest."""
        pos, end, queued = 0, len(stream), JOIN if self._outbox else 0
        while end - pos >= 4 and not self._busy and not self._choked and queued < JOIN:
            (size,) = read_size(stream, pos)
            if not 0 <= size <= self._max_frame:
                self._refuse_frame(size, bytes(stream[pos : pos + 4]))
            after = pos + 4 + size
            if after > end or self._closing or self._leaving:
                break
            frame = stream[pos + 4 : after]
            pos = after
            self._frames += 1
            self._max_frame = self._largest_frame()
            if ours:
                self._inbox.begin()
                queued += self._ask(frame)
            else:
                queued += self._ask(memoryview(bytes(frame)))
        if pos < end and not self._closing and not self._leaving:
            self._inbox.keep(stream[pos:], ours, self._max_frame)

    def _ask(self, frame: memoryview) -> int:
        """Put the answer in the outbox, or be busy until there is one. Returns the bytes put."""
        queued = 0
        try:
            answer = self._answer(self.facts, frame)
        except Malformed as error:
            self._refuse(str(error))
        except Exception:
            self._bug()
        else:
            if isinstance(answer, list):
                queued = self._outbox.put(answer)
            elif answer is not None:
                self._park(answer, len(frame))
                return 0
            if self._gate is not None:
                self._heed(self._gate)
        self._inbox.done()
        return queued

    def _ask_alone(self, frame: memoryview) -> None:
        """As `_ask` and `_proceed` while nothing else is under way, which is what nearly every small request finds."""
        try:
            answer = self._answer(self.facts, frame)
            if isinstance(answer, list):
                first = answer[0]
                if len(answer) == 1 and isinstance(first, bytes) and len(first) <= JOIN:
                    self._transport.write(first)
                else:
                    self._outbox.put(answer)
                    self._proceed()
            elif answer is not None:
                self._park(answer, len(frame))
                return
            if self._gate is not None:
                self._heed(self._gate)
        except Malformed as error:
            self._refuse(str(error))
        except Exception:
            self._bug()

    def _park(self, waits: Awaitable[Answer], size: int) -> None:
        if self._gate is not None:
            self._inbox.hold(size)
        self._busy = True
        self._waits = waits
        if self._idle is not None:
            self._idle.set_result(None)
            self._idle = None
        elif self._scope is None:
            self._scope = anyio.CancelScope()
            self._shared.spawn(self._work)

    async def _work(self) -> None:
        """The task of a connection, made for the first request that waits and kept for the next: a new task and scope
        for each would cost 60 µs. It ends with the connection."""
        assert self._scope is not None
        with self._scope:
            while True:
                if self._waits is None:
                    self._idle = asyncio.get_running_loop().create_future()
                    await self._idle
                assert self._waits is not None
                waits, self._waits = self._waits, None
                try:
                    self._answered(await waits)
                except Malformed as error:
                    self._refuse(str(error))
                except Exception:
                    self._bug()

    def _answered(self, answer: Answer) -> None:
        self._busy = False
        self._patience.stirred = True
        self._inbox.done()
        if answer is not None:
            self._outbox.put(answer)
        if self._closed:
            self._outbox.clear()
        elif self._gate is not None:
            self._heed(self._gate)
        self._proceed()

    def _heed(self, gate: Gate) -> None:
        """Somebody is not let in, or is: then frames may be larger, and nobody stands in the way any more if the log-in
        is good for ever."""
        if gate.failed is not None:
            # Some clients forget an answer that comes together with the end of the connection.
            self._complain(gate.failed)
            asyncio.get_running_loop().call_later(LAST_WORDS, self._close)
        elif gate.max_frame is None:
            self._max_frame = self._shared.limits.request_max_bytes
            self._inbox.move_to(self._shared.budget)
            if gate.open_for_ever:
                self._gate, self._answer = None, self._shared.answer
        else:
            self._max_frame = self._largest_frame()

    def _largest_frame(self) -> int:
        most = self._shared.limits.request_max_bytes
        return most if self._gate is None else min(most, self._gate.max_frame or most)

    def _proceed(self) -> None:
        """Something changed: send what can be sent, take the next request if its turn has come, read or stop."""
        inbox = self._inbox
        while not self._closing and not self._closed:
            if self._outbox:
                self._pump()
            if self._busy or self._outbox or self._choked:
                break
            if inbox.backlog is None:
                if self._eof or self._leaving:
                    self._close()
                break
            self._take(inbox.taken(), True)
        self._breathe()

    def _breathe(self) -> None:
        """Read, unless a further frame waits already or the budget is spent."""
        want = not self._inbox.full
        if want is not self._reading and not self._closing and not self._closed and not self._eof:
            self._reading = want
            if want:
                self._patience.begin_again()
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _pump(self) -> None:
        """Hand the outbox to the transport until that is full; what lies on disk is read only now."""
        left = TURN
        try:
            while self._outbox and not self._choked:
                if left <= 0:
                    asyncio.get_running_loop().call_soon(self._proceed)
                    return
                left -= self._outbox.write_to(self._transport, encrypted=self._tls is not None)
        except Exception:
            self._bug()

    # ------------------------------------------------------------ the end

    def _refuse_frame(self, size: int, start: bytes) -> None:
        reason = f"a frame of {size} bytes, the limit is {self._largest_frame()}"
        if self._frames == 0:
            reason = language_of(start, "PLAINTEXT" if self._gate is None else "SASL_PLAINTEXT") or reason
        self._refuse(reason)

    def _refuse(self, reason: str) -> None:
        self._complain(reason)
        self._close()

    def _complain(self, reason: str) -> None:
        if not self._closing and self._shared.complaints.may_log(self.facts.peer[0]):
            log.info(
                "connection.refused",
                peer=peer_name(self.facts),
                listener=self.facts.listener,
                reason=printable(reason),
            )

    def _bug(self) -> None:
        """Called in an `except`. What is half written cannot be mended, so nothing more is sent."""
        log.exception("connection.failed", peer=peer_name(self.facts), listener=self.facts.listener)
        self._closing = True
        self._transport.abort()

    def _give_up(self) -> None:
        if self._busy and self._inbox.backlog is None and not self._closed:
            if self._scope is not None:
                self._scope.cancel()
            self._close()

    def _close(self) -> None:
        """Say no more than what is already said."""
        if not self._closing:
            if self._outbox:
                self._pump()
            self._closing = True
            self._inbox.drop()
            self._transport.close()
