"""Whoever does not speak Kafka, and how a peer and its words are written into a log."""

from __future__ import annotations

from broker_lite.apis.registry import ConnectionFacts

FIRST_FRAME_MAX = 0x1600_0000
"""A first frame of 369 MB or more is no frame: it is TLS (0x1603) or text."""
_HTTP = (b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ")


def language_of(start: bytes, wanted: str) -> str | None:
    """What a connection that begins with these four bytes seems to speak, and what to do; None: nothing that we know.

    `wanted` is the security protocol of the listener."""
    if start in _HTTP:
        return "an HTTP client is talking to a Kafka port: use a Kafka client, or the port of the HTTP service"
    if start[:2] == b"\x16\x03":
        return f"a TLS client is talking to a plaintext listener: use security.protocol={wanted}"
    return None


def peer_name(facts: ConnectionFacts) -> str:
    host, port = facts.peer
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def printable(text: str) -> str:
    """What a stranger wrote, safe for a terminal and not too long."""
    return text[:200].encode("unicode_escape").decode("ascii")
