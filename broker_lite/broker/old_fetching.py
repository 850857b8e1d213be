"""Fetch for readers of the old days (versions 0 to 3): batches are made into message sets on the way out.

A reader of messages goes on after the last one it got.  What it cannot be given (control batches, what compaction left
empty) would hold it for ever, so that is stepped over here: the partition is read again behind it, and if nothing is
there the fetch waits as if nothing had been there at all.

How much: versions 0 to 2 have a hard limit for each partition, and a first message that is larger comes cut off, which
is how these readers learn to ask for more.  Version 3 gets its first message whole.  Unlike Kafka we cut between
messages, not batches: a reader whose limit is below a batch but not below its messages gets on.

Converting costs about 8 µs a record, so it is done in a thread unless it is little, for a few readers at a time: each
may be given what becomes 64 MiB when it is inflated.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from broker_lite.broker.fetching import Appetite, Fetch, Fetched, release
from broker_lite.broker.threads import in_a_thread
from broker_lite.errors import BrokerError, ErrorCode
from broker_lite.log.scan import whole
from broker_lite.log.slice import FileSlice
from broker_lite.records.batch import MAGIC
from broker_lite.records.downconvert import down_convert
from broker_lite.records.legacy import as_batch
from broker_lite.shapes import replace

if TYPE_CHECKING:
    from broker_lite.broker.broker import Broker
    from broker_lite.broker.fetch_sessions import Want

_READABLE_ERRORS = (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.CORRUPT_MESSAGE)


class OldFetch:
    """One fetch request of version 0 to 3 on its way."""

    def __init__(self, broker: Broker, wants: list[Want], appetite: Appetite, *, version: int) -> None:
        self._broker = broker
        self._wants = wants
        self._appetite = appetite
        self._magic = 0 if version < 2 else 1
        self._hard_limit = version < 3
        appetite.one_of_each = self._hard_limit

    async def run(self) -> list[Fetched]:
        clock = self._broker.clock
        until = clock.monotonic() + self._appetite.max_wait_ms / 1000
        wants = self._wants
        while True:
            left_ms = max(0, round((until - clock.monotonic()) * 1000))
            fetch = Fetch(self._broker, wants, replace(self._appetite, max_wait_ms=left_ms))
            read = fetch.run()
            results = await read if isinstance(read, Awaitable) else read
            try:
                converted = await self._convert_all(fetch, results)
            finally:
                release(results)
            moved = [one.want for one in converted]
            if left_ms == 0 or moved == wants or any(one.records or one.error for one in converted):
                return [replace(one, want=want) for one, want in zip(converted, self._wants, strict=True)]
            wants = moved

    async def _convert_all(self, fetch: Fetch, results: list[Fetched]) -> list[Fetched]:
        converted: list[Fetched] = []
        left = self._appetite.max_bytes
        first = True
        for fetched in results:
            one = await self._convert(fetch, fetched, left, first=first)
            converted.append(one)
            if one.records:
                first = False
                left = max(0, left - len(one.records))
        return converted

    async def _convert(self, fetch: Fetch, fetched: Fetched, left: int, *, first: bool) -> Fetched:
        """The partition's messages. `want.offset` of the result lies behind what cannot be given."""
        while isinstance(fetched.records, FileSlice):
            want, raw = fetched.want, fetched.records
            limit = min(want.max_bytes, left)
            try:
                # Also what is small: a kilobyte can be a hundred thousand records.
                messages, behind = await in_a_thread(
                    self._messages, raw, want.offset, limit, first, limiter=self._broker.inflating
                )
            except BrokerError as error:
                code = error.code if error.code in _READABLE_ERRORS else ErrorCode.CORRUPT_MESSAGE
                return replace(fetched, records=None, error=code)
            finally:
                raw.release()
            if behind is None:
                return replace(fetched, records=messages)
            fetched = fetch.read_one(replace(want, offset=behind), left, at_least_one=True)
        return fetched

    def _messages(self, raw: FileSlice, offset: int, limit: int, first: bool) -> tuple[bytes, int | None]:
        """Messages from `offset` on; if nothing in `raw` becomes one, the offset behind it. In a thread."""
        out: list[bytes] = []
        size = 0
        behind: int = offset
        for step, body in whole(_Readable(raw), 0, len(raw)):
            try:
                for message in down_convert(body, magic=self._magic, from_offset=offset):
                    if size + len(message) > limit and (out or not first or self._hard_limit):
                        if not out and self._hard_limit:
                            out.append(message[: max(0, limit)])
                        return b"".join(out), None
                    out.append(message)
                    size += len(message)
            except BrokerError:
                if out:
                    break  # the reader gets what came before, and the error when it comes back
                raise
            behind = max(behind, step.last + 1)
        return b"".join(out), None if out else behind


async def as_batches(broker: Broker, results: list[Fetched]) -> list[Fetched]:
    """For readers who need know nothing of the old days: messages that an old Kafka left on disk become batches."""
    for fetched in results:
        raw = fetched.records
        if fetched.old and isinstance(raw, FileSlice):
            try:
                fetched.records = await in_a_thread(_batches, raw, limiter=broker.inflating)
            except BrokerError:
                continue  # it goes out as it lies there, and the reader may say what is wrong with it
            raw.release()
    return results


def _batches(raw: FileSlice) -> bytes:
    """In a thread."""
    return b"".join(
        body if step.magic == MAGIC else as_batch(body).buf for step, body in whole(_Readable(raw), 0, len(raw))
    )


class _Readable:
    """A stretch of a file, as the walk over batches wants to read it."""

    def __init__(self, records: FileSlice) -> None:
        self.pread = records.read
