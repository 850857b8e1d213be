"""How to get into a broker that wants TLS or a log-in: Kafka's own properties, which nobody gets to see.

They travel from the driver to the workers inside of tasks.  Whatever prints a task, a plan or an error prints their
names at most: a password in a log is a password of everybody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from broker_lite.pipeline.errors import WrongOption

if TYPE_CHECKING:
    from broker_lite.client.access import Access

_NAMES = re.compile(r"security\.protocol|(sasl|ssl)\..+")
PREFIX = "kafka."


def is_about_entry(option: str) -> bool:
    """Whether an option of the connector says how to get in: kafka.security.protocol, kafka.sasl.*, kafka.ssl.*."""
    return option.startswith(PREFIX) and _NAMES.fullmatch(option.removeprefix(PREFIX)) is not None


@dataclass(frozen=True)
class Entry:
    """Use `Entry.told`; without any property it is a plain connection."""

    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def told(cls, options: Mapping[str, str]) -> Entry:
        """From options named as the connector names them. WrongOption if nobody gets in with these."""
        found = sorted((name.removeprefix(PREFIX), value) for name, value in options.items() if is_about_entry(name))
        made = cls(tuple(found))
        try:
            made.access  # noqa: B018 what is wrong is told on the driver, before anything is started
        except (ValueError, OSError) as error:
            where = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
            raise WrongOption(f"{where}{error.strerror if isinstance(error, OSError) else error}") from None
        return made

    @cached_property
    def access(self) -> Access | None:
        if not self.properties:
            return None
        from broker_lite.client.access import access

        return access(dict(self.properties))

    def __getstate__(self) -> dict[str, object]:
        """What OpenSSL made of it does not travel."""
        return {"properties": self.properties}


def options_from(path: str) -> dict[str, str]:
    """The options that a properties file of Kafka's clients stands for."""
    from broker_lite.config import properties

    try:
        with open(path, encoding="utf-8") as file:
            said = properties.parse(file.read())
    except OSError as error:
        raise WrongOption(f"--command-config {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise WrongOption(f"--command-config {path}: {error}") from None
    return {f"{PREFIX}{name}": value for name, value in said.items() if _NAMES.fullmatch(name)}
