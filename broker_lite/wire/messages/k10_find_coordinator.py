"""FindCoordinator: which broker keeps a group or a transaction."""

from __future__ import annotations

from broker_lite.wire.schema import Int8, Int16, Int32, String, field, message, since, struct


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    """Who coordinates this key? From version 4 many keys."""

    key: String = field(versions="0-3", default="")
    key_type: Int8 = since(1, default=0)
    coordinator_keys: list[String] = since(4, default=[])


@struct
class Coordinator:
    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16 = 0
    error_message: String | None


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    """The coordinator's address, per key from version 4."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = field(versions="0-3", default=0)
    error_message: String | None = field(versions="1-3", default="")
    node_id: Int32 = field(versions="0-3", default=0)
    host: String = field(versions="0-3", default="")
    port: Int32 = field(versions="0-3", default=0)
    coordinators: list[Coordinator] = since(4, default=[])
