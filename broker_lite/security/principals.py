"""Names of users: from a certificate's subject, through the rules that shorten it.

`User:alice` is a principal; nobody in particular is `User:ANONYMOUS`.  A certificate's subject is written as Java
writes it (RFC 2253: last part first, `CN=alice,OU=shop,O=acme`), because Kafka's rules and ACLs are written for that.

A rule is `RULE:pattern/replacement/` with an L or U behind for lower or upper case; the pattern has to match the whole
subject, `$1` in the replacement is its first group; `DEFAULT` is the subject as it is.  The first that matches counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from broker_lite.shapes import dataclass

ANONYMOUS = "User:ANONYMOUS"

_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_OIDS = {
    "emailAddress": ("1.2.840.113549.1.9.1", 0x16),
    "serialNumber": ("2.5.4.5", 0x13),
    "title": ("2.5.4.12", 0x0C),
    "givenName": ("2.5.4.42", 0x0C),
    "surname": ("2.5.4.4", 0x0C),
}
"""Java has no word for these and writes their number and their bytes."""
_SPECIAL = re.compile(r'([,+"\\<>;])')
_RULE = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_GROUP = re.compile(r"\$([0-9])")

Subject = Iterable[Sequence[tuple[str, str]]]
"""As `SSLSocket.getpeercert` gives it: parts in the certificate's order, each of one or more attributes."""


def principal(user: str) -> str:
    return f"User:{user}"


def distinguished_name(subject: Subject) -> str:
    parts = ["+".join(_attribute(name, value) for name, value in part) for part in subject]
    return ",".join(reversed(parts))


def _attribute(name: str, value: str) -> str:
    if name in _OIDS:
        oid, tag = _OIDS[name]
        raw = value.encode()
        size = bytes([len(raw)]) if len(raw) < 0x80 else bytes([0x82, len(raw) >> 8, len(raw) & 0xFF])
        return f"{oid}=#{(bytes([tag]) + size + raw).hex()}"
    text = _SPECIAL.sub(r"\\\1", value)
    if text[:1] in (" ", "#"):
        text = f"\\{text}"
    if len(value) > 1 and value.endswith(" "):
        text = f"{text[:-1]}\\ "
    return f"{_SHORT.get(name, name)}={text}"


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str] | None
    """None is DEFAULT."""
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        made = _GROUP.sub(lambda group: found[int(group[1])] or "", self.replacement)
        return made.lower() if self.case == "L" else made.upper() if self.case == "U" else made


class MappingRules:
    """`ssl.principal.mapping.rules`. ValueError says what is wrong with them."""

    def __init__(self, text: str) -> None:
        self._rules = list(_read_rules(text))

    def user(self, subject: Subject) -> str:
        """The user's name; the subject as it is if no rule matches."""
        name = distinguished_name(subject)
        for rule in self._rules:
            made = rule.apply(name)
            if made is not None:
                return made
        return name


def _read_rules(text: str) -> Iterable[_Rule]:
    rest = text.strip()
    while rest:
        if rest.startswith("DEFAULT"):
            yield _Rule(None, "", "")
            rest = rest.removeprefix("DEFAULT")
        else:
            found = _RULE.match(rest)
            if found is None:
                raise ValueError(f"{rest!r} is neither DEFAULT nor RULE:pattern/replacement/[LU]")
            try:
                pattern = re.compile(found[1].replace("\\/", "/"))
            except re.error as error:
                raise ValueError(f"the pattern {found[1]!r} of a rule: {error}") from None
            groups = [int(number) for number in _GROUP.findall(found[2])]
            if any(number > pattern.groups for number in groups):
                raise ValueError(f"the rule {found[0]!r} speaks of a group that its pattern does not have")
            yield _Rule(pattern, found[2].replace("\\/", "/"), found[3])
            rest = rest[found.end() :]
        rest = rest.lstrip()
        if rest and not rest.startswith(","):
            raise ValueError(f"{rest!r} follows a rule; expected a comma")
        rest = rest[1:].lstrip()
