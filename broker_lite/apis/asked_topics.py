"""Which topics a Metadata request means: those with the ids that it names or, if it names none, those with the names.

Kafka's own admin client leaves the name empty where it asks by id, so a name beside an id says nothing.
"""

from __future__ import annotations

from broker_lite.ids import NO_TOPIC_ID
from broker_lite.wire.messages.k03_metadata import MetadataRequestTopic

FIRST_BY_ID = 12


def meant(topics: list[MetadataRequestTopic], version: int) -> list[MetadataRequestTopic]:
    """Each once, and either by name or by id."""
    if version >= FIRST_BY_ID and (ids := {one.topic_id: None for one in topics if one.topic_id != NO_TOPIC_ID}):
        return [MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in ids]
    return list({(topic.name, topic.topic_id): topic for topic in topics}.values())
