"""`meta.properties`: which cluster and node a data folder belongs to.

Kafka has two versions of it.  Version 0, or none, is from before KRaft: everything may be missing, and the node is
`broker.id`.  Version 1 has `cluster.id` and `node.id`.  What a later version means by its fields nobody knows here, so
it is refused, as Kafka refuses it; likewise what can only be damage, because to make up a new identity for a folder
that has one would make its clients take it for another cluster.
"""

from __future__ import annotations

from pathlib import Path

from broker_lite.errors import StartRefused
from broker_lite.ids import parse_topic_id
from broker_lite.log import checkpoints, layout
from broker_lite.log.disk import Disk
from broker_lite.shapes import dataclass

MAX_BYTES = 64 << 10
MAX_CLUSTER_ID = 1000
NO_DIRECTORY_ID = "A" * 22
LATEST = 1


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """None: a folder from before KRaft does not say."""

    cluster_id: str | None
    node_id: int | None
    directory_id: str


def read_meta_properties(disk: Disk, root: Path) -> MetaProperties | None:
    """None if there is no such file. StartRefused, in one line, if it cannot be believed."""
    path = root / layout.META_PROPERTIES
    size = disk.sizes(root).get(path.name, 0)
    if size > MAX_BYTES:
        raise StartRefused(f"{path} is damaged: it has {size} bytes, expected at most {MAX_BYTES}")
    try:
        found = checkpoints.read_meta_properties(disk, root)
        return None if found is None else _parse(found)
    except ValueError as error:
        raise StartRefused(f"{path} is damaged: {error}") from None
    except _LaterVersion as error:
        raise StartRefused(f"{path} has {error}: a later version of Kafka or broker-lite wrote it") from None


class _LaterVersion(Exception):
    pass


def _parse(found: dict[str, str]) -> MetaProperties:
    version = _number(found.get("version", "0"), "version")
    if version > LATEST:
        raise _LaterVersion(f"version {version}, known are 0 to {LATEST}")
    node = found.get("broker.id" if version == 0 else "node.id")
    cluster_id = found.get("cluster.id")
    if version == 0 and node is None and cluster_id is None:
        raise ValueError("it has neither cluster.id nor broker.id")
    if version == LATEST and (node is None or cluster_id is None):
        raise ValueError(f"{'node.id' if node is None else 'cluster.id'} is missing")
    if cluster_id is not None and not (cluster_id.isprintable() and 0 < len(cluster_id) <= MAX_CLUSTER_ID):
        raise ValueError(f"cluster.id is {cluster_id[:100]!r}")
    directory_id = found.get("directory.id", NO_DIRECTORY_ID)
    try:
        parse_topic_id(directory_id)
    except ValueError:
        raise ValueError(f"directory.id is {directory_id[:100]!r}, expected a UUID in base64") from None
    return MetaProperties(cluster_id, None if node is None else _number(node, "the node"), directory_id)


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise ValueError(f"{what} is {text[:100]!r}, expected a number")
    return int(text)
