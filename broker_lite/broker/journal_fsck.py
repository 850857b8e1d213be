"""What `broker-lite fsck` does with the metadata journal beyond what it does with any log.

A journal that is cut ends with an older state, and that is for people to decide: what is lost is named, as far as it
can still be read.  Two things come back by themselves.  Topics whose creation is lost are found by their folders at the
next start and adopted, keeping everything.  And the count of producer ids goes on above all that were ever used, so
that no new producer is taken for an old one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from broker_lite.broker.adoption import highest_producer_id
from broker_lite.broker.journal import Change, Journal, changes_of
from broker_lite.broker.producer_ids import KIND as PRODUCER_IDS
from broker_lite.broker.producer_ids import ProducerIds
from broker_lite.log.disk import Disk
from broker_lite.log.fsck import Examined, Finding, first_damage, intact_batches
from broker_lite.log.strict import LogDamaged, Place, read_whole


def look_at_changes(disk: Disk, examined: Examined) -> None:
    """Add to the findings what is good for a log and not for a journal: a batch that holds no changes, no files."""
    if first_damage(examined) is not None:
        return
    try:
        for place in read_whole(disk, examined.folder):
            found = _unreadable(place)
            if found is not None:
                examined.findings.append(found)
                return
    except LogDamaged as error:
        examined.findings.append(Finding(error.path, error.position, error.position, 0, error.reason))


def _unreadable(place: Place) -> Finding | None:
    try:
        changes_of(place)
    except LogDamaged as error:
        end = place.position + place.batch.size
        return Finding(place.path, place.position, end, place.batch.base_offset, error.reason)
    return None


def lost_changes(disk: Disk, examined: Examined) -> Iterator[str]:
    """A line for each change behind the first damage."""
    damage = first_damage(examined)
    if damage is None:
        return
    for path, position, batch in intact_batches(disk, examined.folder, after=damage):
        try:
            for _, change in changes_of(Place(path, position, batch)):
                yield f"{path}: byte {position}, lost if it is cut: {_told(change)}"
        except LogDamaged as error:
            yield str(error)


def _told(change: Change) -> str:
    """Without its value, which may be a secret."""
    return f"{change.kind} {change.name} {'is removed' if change.value is None else 'is set'}"


def reset_producer_ids(disk: Disk, root: Path, now_ms: int) -> None:
    """After the journal was cut."""
    journal = Journal.open(root, disk, now_ms=now_ms, sync=True)
    journal.begin()
    ids = ProducerIds(lambda changes: journal.write(changes, now_ms))
    for change in journal.replay():
        if change.kind == PRODUCER_IDS:
            ids.apply(change)
    ids.reset(highest_producer_id(root, disk))
    journal.close()
