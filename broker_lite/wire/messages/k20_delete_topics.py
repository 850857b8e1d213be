"""DeleteTopics: removing topics."""

from __future__ import annotations

from broker_lite.wire.schema import ZERO_UUID, Int16, Int32, String, Uuid, field, message, since, struct


@struct
class DeleteTopicState:
    name: String | None = None
    topic_id: Uuid


@message(key=20, versions="0-6", flexible="4+")
class DeleteTopicsRequest:
    """Delete these topics, by name or from version 6 by id."""

    topics: list[DeleteTopicState] = since(6, default=[])
    topic_names: list[String] = field(versions="0-5", default=[], ignorable=True)
    timeout_ms: Int32


@struct
class DeletableTopicResult:
    name: String | None = field(nullable="6+")
    topic_id: Uuid = since(6, default=ZERO_UUID)
    error_code: Int16 = 0
    error_message: String | None = since(5, default=None)


@message(key=20, versions="0-6", flexible="4+")
class DeleteTopicsResponse:
    """Per topic whether it is gone."""

    throttle_time_ms: Int32 = since(1, default=0)
    responses: list[DeletableTopicResult]
