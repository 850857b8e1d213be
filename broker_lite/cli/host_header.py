"""Which Host headers the metrics page answers: a guard against DNS rebinding.

The page asks for no password.  A web page of an attacker cannot read it from a visitor's browser, because it is of
another origin; unless the attacker lets his own name, `evil.example`, suddenly stand for 127.0.0.1 or for an address in
the visitor's network.  To the browser that is still the same origin.  But the request then says `Host: evil.example`.

An attacker can only use a name that the public DNS lets him own.  Answered are therefore

    addresses                       an attacker's page at an address cannot become another one
    names without a dot             localhost, a compose service, a container, a pod's service
    names in private domains        kafka.default.svc, host.docker.internal, laptop.local, and those of a network or a
                                    namespace such as kafka.my_default or kafka.team-1: no top-level domain has
                                    anything but letters, unless it is an encoded one (xn--)
    our own names                   this machine's, those of the listeners and of the page itself
    names in a setting              whatever else it is scraped by; `*.example.com` are all below it, `*` is any

and requests without the header, which no browser sends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

PRIVATE = ("local", "localhost", "internal", "svc", "home.arpa", "lan", "home", "corp", "test")
"""Domains that nobody can register: reserved, never delegated, or a cluster's own."""


def host_check(own: Iterable[str], allowed: Iterable[str]) -> Callable[[str], bool]:
    """Tells whether a Host header, with or without a port, is one to answer."""
    names = {name.lower().rstrip(".") for name in (*own, *allowed)}
    endings = (*(f".{one}" for one in PRIVATE), *(name[1:] for name in names if name.startswith("*.")))

    def is_answered(header: str) -> bool:
        header = header.strip().lower()
        if not header or header.startswith("[") or "*" in names:
            return True
        name = header.partition(":")[0].rstrip(".")
        last = name.rpartition(".")[2]
        is_public = last.isalpha() or last.startswith("xn--") or not last.isascii()
        return last == name or not is_public or name in names or name.endswith(endings)

    return is_answered


def host_of(request: bytes) -> str | None:
    """The Host header of a request that has come whole; empty if there is none, None if there are several."""
    head = request.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    found = [value for name, _, value in (line.partition(b":") for line in head) if name.strip().lower() == b"host"]
    if len(found) > 1:
        return None
    return found[0].decode("latin-1").strip() if found else ""
