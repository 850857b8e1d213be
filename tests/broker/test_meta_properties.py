"""Whose a folder is: what is written is believed, and what a later version wrote, or damage, is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.broker.data_folder import DataFolder
from broker_lite.broker.meta_properties import MAX_BYTES
from broker_lite.errors import StartRefused
from broker_lite.log import checkpoints, layout
from broker_lite.log.disk import RealDisk

GOOD = b"version=1\ncluster.id=c\nnode.id=1\n"


def identify(root: Path, text: bytes | None, *, cluster_id: str | None = None) -> str:
    if text is not None:
        (root / layout.META_PROPERTIES).write_bytes(text)
    folder = DataFolder.open(root, RealDisk())
    try:
        found = folder.identify(node_id=1, cluster_id=cluster_id)
        folder.begin()
        return found
    finally:
        folder.close(clean=False)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"version=2\ncluster.id=c\nnode.id=1\n", "has version 2, known are 0 to 1: a later version of Kafka"),
        (b"version=2\n", "has version 2"),
        (b"version=1\nnode.id=1\n", "cluster.id is missing"),
        (b"version=1\ncluster.id=c\n", "node.id is missing"),
        (b"version=1\ncluster.id=c\nbroker.id=1\n", "node.id is missing"),
        (b"version=-1\n", "version is '-1', expected a number"),
        (b"version=one\n", "version is 'one'"),
        (b"version=" + b"9" * 5000, "version is '999"),
        ("version=\u0661\n".encode(), "version is"),
        (b"", "neither cluster.id nor broker.id"),
        (b"\0" * 100, "neither cluster.id nor broker.id"),
        (b"version=0\n", "neither cluster.id nor broker.id"),
        (b"\xff\xfe", "codec can't decode"),
        (b"version=1\ncluster.id=\nnode.id=1\n", "cluster.id is ''"),
        (b"version=1\ncluster.id=a\x1b[2Jb\nnode.id=1\n", "cluster.id is 'a\\x1b[2Jb'"),
        (b"version=1\ncluster.id=" + b"c" * 40_000 + b"\nnode.id=1\n", "cluster.id is 'ccc"),
        (b"version=1\ncluster.id=c\nnode.id=x\n", "the node is 'x'"),
        (b"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=x\n", "directory.id is 'x'"),
        (b"#" * (MAX_BYTES + 1), f"it has {MAX_BYTES + 1} bytes"),
    ],
)
def test_what_cannot_be_believed_is_refused_in_one_line_and_left_alone(tmp_path: Path, text: bytes, told: str) -> None:
    checkpoints.mark_clean_shutdown(RealDisk(), tmp_path)
    with pytest.raises(StartRefused) as refused:
        identify(tmp_path, text)
    said = str(refused.value)
    assert said.startswith(str(tmp_path / layout.META_PROPERTIES))
    assert told in said
    assert "\n" not in said
    assert len(said) < 500
    assert (tmp_path / layout.META_PROPERTIES).read_bytes() == text
    assert checkpoints.is_clean_shutdown(RealDisk(), tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        b"#\n#Mon Jan 01 00:00:00 UTC 2024\n" + GOOD + b"directory.id=AAAAAAAAAAAAAAAAAAAAAQ\n",
        b"version=0\nbroker.id=1\ncluster.id=c\n",
        b"broker.id=1\ncluster.id=c\n",
        b"version=0\ncluster.id=c\n",
        GOOD + b"a.field.of=tomorrow\n",
    ],
)
def test_what_kafka_takes_is_taken_and_stays_as_it_is(tmp_path: Path, text: bytes) -> None:
    assert identify(tmp_path, text) == "c"
    assert identify(tmp_path, None, cluster_id="c") == "c"
    assert (tmp_path / layout.META_PROPERTIES).read_bytes() == text


def test_a_folder_from_before_there_were_cluster_ids_gets_one(tmp_path: Path) -> None:
    found = identify(tmp_path, b"version=0\nbroker.id=1\n")
    assert identify(tmp_path, None) == found


def test_another_cluster_and_another_node_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match="belongs to the cluster c, not to d"):
        identify(tmp_path, GOOD, cluster_id="d")
    with pytest.raises(StartRefused, match="belongs to node 7, not to 1: start with --node-id 7"):
        identify(tmp_path, GOOD.replace(b"node.id=1", b"node.id=7"))


def test_a_new_folder_is_given_its_name_when_the_start_goes_on_and_not_before(tmp_path: Path) -> None:
    folder = DataFolder.open(tmp_path, RealDisk())
    cluster_id = folder.identify(node_id=1, cluster_id=None)
    assert not (tmp_path / layout.META_PROPERTIES).exists()
    folder.begin()
    folder.close(clean=False)
    assert identify(tmp_path, None) == cluster_id
