"""DeleteShareGroupOffsets: where a share group starts: forget."""

from __future__ import annotations

from broker_lite.wire.schema import Int16, Int32, String, Uuid, message, struct


@struct
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: String


@message(key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest:
    """Delete the offsets of these topics."""

    group_id: String
    topics: list[DeleteShareGroupOffsetsRequestTopic]


@struct
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: String
    topic_id: Uuid
    error_code: Int16 = 0
    error_message: String | None = None


@message(key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse:
    """Per topic whether they are gone."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic]
