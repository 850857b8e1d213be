"""A request that is refused leaves nothing for the collector.

An exception that is kept in a variable of a frame it came through holds itself, and with that frame the request: some
hundred megabytes, before the collector comes by, which counts objects and not bytes.
"""

from __future__ import annotations

import gc
from pathlib import Path

from broker_lite.apis.routes import Served
from broker_lite.errors import BrokerError, Malformed
from tests.security.hiding import ABSENT, HIDDEN, Filling, each_api, heard, hiding, own


@each_api
async def test_an_answer_leaves_no_exception_behind(tmp_path: Path, api: Served) -> None:
    async with hiding(tmp_path) as talk:
        own(talk)
        gc.collect()
        gc.disable()
        try:
            for who in ("User:nobody", "User:alice", "User:root"):
                talk.facts.principal = who
                for version in {api.versions[0], api.versions[-1]}:
                    for filling in (Filling(ABSENT), Filling(HIDDEN, HIDDEN), Filling(""), Filling("x" * 300)):
                        await heard(talk, api, version, filling)
                        left = [one for one in gc.get_objects() if isinstance(one, (BrokerError, Malformed))]
                        assert left == [], f"{api.name} v{version} as {who}"
        finally:
            gc.enable()
