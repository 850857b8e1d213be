"""What the scripts of the Apache image do with the environment before Kafka sees it.

KAFKA_SSL_KEYSTORE_FILENAME and its like name files in /etc/kafka/secrets, and KAFKA_SSL_…_CREDENTIALS files there that
hold a password.  KAFKA_OPTS may name a JAAS file: the users of PLAIN stand in its section `KafkaServer`, or in
`NAME.KafkaServer` for one listener.  So the environment of a container that protects its listeners works here, too.

KAFKA_ADVERTISED_LISTENERS alone tells where to listen as well: at the ports that are advertised.  Only somebody who
advertises nothing but PLAINTEXT keeps our default, for port 9092 is what is published under other numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from broker_lite.config.environment import variable_of
from broker_lite.errors import StartRefused

SECRETS = Path("/etc/kafka/secrets")
OUR_LISTENERS = "PLAINTEXT://0.0.0.0:9092"
"""What our own image says where nobody else does."""

_FILES = {
    "KAFKA_SSL_KEYSTORE_FILENAME": "KAFKA_SSL_KEYSTORE_LOCATION",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "KAFKA_SSL_TRUSTSTORE_LOCATION",
}
_PASSWORDS = {
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "KAFKA_SSL_KEYSTORE_PASSWORD",
    "KAFKA_SSL_KEY_CREDENTIALS": "KAFKA_SSL_KEY_PASSWORD",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "KAFKA_SSL_TRUSTSTORE_PASSWORD",
}
_LOGINS = re.compile(r"-Djava\.security\.auth\.login\.config=(\S+)")
_NAMES = re.compile(r"([A-Za-z0-9._-]+)://")
_HOST = re.compile(r"://[^,]*?(?=:\d+\s*(?:,|$))")
_COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:[^"\\]|\\.)*")', re.DOTALL)
_SECTION = re.compile(r'([\w.-]+)\s*\{((?:[^"{}]|"(?:[^"\\]|\\.)*")*)\}')


def as_in_the_image(environment: Mapping[str, str], secrets: Path = SECRETS) -> dict[str, str]:
    """The environment that Kafka would see. StartRefused if a file cannot be read."""
    seen = {name: value for name, value in environment.items() if name not in _FILES and name not in _PASSWORDS}
    for variable, means in _FILES.items():
        if name := environment.get(variable):
            seen.setdefault(means, str(secrets / name))
    for variable, means in _PASSWORDS.items():
        if (name := environment.get(variable)) and means not in seen:
            seen[means] = _read(secrets / name, variable).rstrip("\n")
    if _advertises_alone(environment):
        seen["KAFKA_LISTENERS"] = _HOST.sub("://", environment["KAFKA_ADVERTISED_LISTENERS"])
    listeners = environment.get("BROKER_LITE_LISTENERS") or seen.get("KAFKA_LISTENERS", "")
    logins = _LOGINS.search(environment.get("KAFKA_OPTS", ""))
    if logins is not None and "SASL" in listeners + environment.get("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", ""):
        sections = _sections(_read(Path(logins[1].strip("'\"")), "KAFKA_OPTS"))
        for name in map(str.lower, _NAMES.findall(listeners)):
            users = sections.get(f"{name}.KafkaServer") or sections.get("KafkaServer")
            if users is not None:
                seen.setdefault(variable_of(f"listener.name.{name}.plain.sasl.jaas.config"), users)
    return seen


def _advertises_alone(environment: Mapping[str, str]) -> bool:
    """Whether listeners are advertised of which nobody says where they listen."""
    named = _NAMES.findall(environment.get("KAFKA_ADVERTISED_LISTENERS", ""))
    told = environment.get("BROKER_LITE_LISTENERS") or environment.get("KAFKA_LISTENERS", OUR_LISTENERS)
    return told == OUR_LISTENERS and any(name.upper() != "PLAINTEXT" for name in named)


def _read(path: Path, variable: str) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise StartRefused(f"{variable}: {path}: {error.strerror}") from None


def _sections(text: str) -> dict[str, str]:
    """What stands between the braces of each section of a JAAS file."""
    without_comments = _COMMENT_OR_TEXT.sub(lambda found: found[1] or " ", text)
    return dict(_SECTION.findall(without_comments))
