"""Keys from the environment, spelled as the Apache image spells them.

`_` stands for `.`, `__` for `_`, `___` for `-`: KAFKA_NUM_PARTITIONS is `num.partitions`.  BROKER_LITE_NUM_PARTITIONS
is the same key and wins; BROKER_LITE_STRICT is our own key `broker.lite.strict`.  Variables that Kafka's scripts
and images use for other things are not keys.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping

OURS = "BROKER_LITE_"
KAFKAS = "KAFKA_"

_NOT_KEYS = re.compile(
    r"BROKER_LITE_(BOOTSTRAP|COMMAND_CONFIG)"
    r"|KAFKA_([A-Z0-9_]*_)?OPTS|KAFKA_(JMX|LOG4J|TOOLS_LOG4J|REST|SERVICE|PORT)(_.*)?"
    r"|KAFKA_(VERSION|HOME|DEBUG|USER|CLUSTER_ID|DATA|CONF|CONFIG|LOG_DIR_PATH|MODE)"
)
_UNDERSCORES = re.compile(r"_+")
_MEANS = {"_": ".", "__": "_", "___": "-"}
_SPELLED = {letter: spelling for spelling, letter in _MEANS.items()}


def key_name(variable: str) -> str:
    """The key that the part of a variable's name after its prefix spells."""
    return _UNDERSCORES.sub(lambda found: _MEANS.get(found.group(), found.group()), variable.lower())


def variable_of(key: str) -> str:
    """Kafka's variable that spells a key."""
    return KAFKAS + "".join(_SPELLED.get(letter, letter) for letter in key.upper())


def keys_from(environment: Mapping[str, str], known: Container[str]) -> dict[str, tuple[str, str]]:
    """Key name -> (variable, value) for every variable that spells a key, known or not."""
    found: dict[str, tuple[str, str]] = {}
    for prefix in (KAFKAS, OURS):
        for variable in sorted(environment):
            if not variable.startswith(prefix) or variable == prefix or _NOT_KEYS.fullmatch(variable):
                continue
            name = key_name(variable[len(prefix) :])
            if prefix == OURS and name not in known and f"broker.lite.{name}" in known:
                name = f"broker.lite.{name}"
            found[name] = (variable, environment[variable])
    return found
